// A checkpoint saved in one layout is loaded in any other.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/checkpoint/checkpointer.h"
#include "armature/checkpoint/checkpointer_test_state.h"
#include "armature/tensor/float16.h"

namespace armature {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// The parts of dimension `dim` over `ranks` ranks, as many as possible of ceil(extent / ranks): 6 over 4 is
// 2, 2, 2, 0.
std::vector<Slice> Split(const Shape& shape, int dim, int64_t ranks) {
  const int64_t extent = shape.dim(dim), chunk = (extent + ranks - 1) / ranks;
  std::vector<Slice> slices;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t begin = std::min(rank * chunk, extent), end = std::min(begin + chunk, extent);
    Slice slice = WholeSlice(shape);
    slice.offset[dim] = begin;
    slice.shape = shape.WithDim(dim, end - begin);
    slices.push_back(slice);
  }
  return slices;
}

// A tensor in parts; element i of the whole is i, or `fill` before a load.
struct Parts {
  Parts(std::string name, const Shape& shape, std::vector<Slice> slices, float scale, bool filled)
      : name(std::move(name)), shape(shape), slices(std::move(slices)) {
    std::vector<float> whole(shape.num_elements());
    for (size_t i = 0; i < whole.size(); ++i) whole[i] = scale * static_cast<float>(i);
    for (const Slice& slice : this->slices) {
      values.emplace_back(slice.shape.num_elements(), -1.0f);
      if (!filled) continue;
      CopyShared(WholeSlice(shape), DType::kF32, reinterpret_cast<const char*>(whole.data()), slice,
                 DType::kF32, reinterpret_cast<char*>(values.back().data()));
    }
  }

  void AppendTo(std::vector<ShardedArray>& arrays) {
    for (size_t i = 0; i < slices.size(); ++i) {
      arrays.push_back(ArrayOf(name, shape, slices[i], DType::kF32, values[i]));
    }
  }

  std::string name;
  Shape shape;
  std::vector<Slice> slices;
  std::vector<std::vector<float>> values;
};

void SaveArrays(Checkpointer& checkpointer, const std::vector<ShardedArray>& arrays) {
  ASSERT_OK_AND_ASSIGN(const SaveHandle save, checkpointer.Save(1, arrays, {}));
  ASSERT_THAT(save.Wait(), IsOk());
}

TEST(Reshard, SixElementsOfFourRanksOnOneThreeFiveAndEight) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const auto checkpointer, Checkpointer::Open(files, "/c", {}));
  const Shape shape{6};
  std::vector<ShardedArray> arrays;
  Parts weight("w", shape, Split(shape, 0, 4), 1, true), moment("w.m", shape, Split(shape, 0, 4), 10, true);
  EXPECT_EQ(weight.slices[3].shape, Shape{0});
  weight.AppendTo(arrays);
  moment.AppendTo(arrays);
  SaveArrays(*checkpointer, arrays);

  for (const int64_t ranks : {1, 3, 5, 8}) {
    arrays.clear();
    Parts loaded("w", shape, Split(shape, 0, ranks), 1, false),
        loaded_moment("w.m", shape, Split(shape, 0, ranks), 1, false);
    loaded.AppendTo(arrays);
    loaded_moment.AppendTo(arrays);
    ASSERT_THAT(checkpointer->Restore(1, arrays), IsOk());
    std::vector<float> whole, whole_moment;
    for (const auto& part : loaded.values) whole.insert(whole.end(), part.begin(), part.end());
    for (const auto& part : loaded_moment.values)
      whole_moment.insert(whole_moment.end(), part.begin(), part.end());
    EXPECT_THAT(whole, ElementsAre(0, 1, 2, 3, 4, 5)) << ranks;
    EXPECT_THAT(whole_moment, ElementsAre(0, 10, 20, 30, 40, 50)) << ranks;
  }
}

// Rows, columns, planes and flat ranges of one tensor, each loaded as every other.
TEST(Reshard, EveryCutOfAThreeDimensionalTensorLoadsAsEveryOther) {
  const Shape shape{5, 6, 4};
  std::vector<std::vector<Slice>> cuts = {
      {WholeSlice(shape)}, Split(shape, 0, 3), Split(shape, 1, 4), Split(shape, 2, 2)};
  std::vector<Slice> flat;
  for (const auto& range :
       {std::make_pair(0, 37), std::make_pair(37, 38), std::make_pair(38, 101), std::make_pair(101, 120)}) {
    for (const Slice& slice : SlicesOfFlatRange(shape, range.first, range.second)) flat.push_back(slice);
  }
  cuts.push_back(flat);
  std::vector<Slice> grid;
  for (const Slice& rows : Split(shape, 0, 2)) {
    for (const Slice& columns : Split(shape, 2, 4)) grid.push_back(*Intersect(rows, columns));
  }
  cuts.push_back(grid);

  for (const std::vector<Slice>& saved_cut : cuts) {
    MemoryFileSystem files;
    ASSERT_OK_AND_ASSIGN(const auto checkpointer, Checkpointer::Open(files, "/c", {}));
    std::vector<ShardedArray> arrays;
    Parts saved("w", shape, saved_cut, 1, true);
    saved.AppendTo(arrays);
    SaveArrays(*checkpointer, arrays);
    for (const std::vector<Slice>& cut : cuts) {
      arrays.clear();
      const Parts expected("w", shape, cut, 1, true);
      Parts loaded("w", shape, cut, 1, false);
      loaded.AppendTo(arrays);
      ASSERT_THAT(checkpointer->Restore(1, arrays), IsOk());
      EXPECT_EQ(loaded.values, expected.values);
    }
  }
}

TEST(Reshard, ConvertsDTypesIfAsked) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const auto checkpointer, Checkpointer::Open(files, "/c", {}));
  const Shape shape{6};
  std::vector<ShardedArray> arrays;
  Parts weight("w", shape, Split(shape, 0, 2), 1, true);
  weight.AppendTo(arrays);
  SaveArrays(*checkpointer, arrays);

  std::vector<BFloat16> half(4);
  arrays = {ArrayOf("w", shape, {{1}, {4}}, DType::kBF16, half)};
  EXPECT_THAT(checkpointer->Restore(1, arrays), StatusIs(absl::StatusCode::kInvalidArgument));
  RestoreOptions options;
  options.convert_dtypes = true;
  ASSERT_THAT(checkpointer->Restore(1, arrays, options), IsOk());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(static_cast<float>(half[i]), static_cast<float>(i + 1));

  std::vector<int32_t> integers(6);
  arrays = {ArrayOf("w", shape, WholeSlice(shape), DType::kI32, integers)};
  EXPECT_THAT(checkpointer->Restore(1, arrays, options), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(integers, Each(0));
}

}  // namespace
}  // namespace armature
