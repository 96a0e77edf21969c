#include "armature/comm/conformance_grid.h"

#include <cmath>
#include <cstring>

#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/operation.h"
#include "armature/tensor/float16.h"

namespace armature {
namespace comm {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64,
                             DType::kI32, DType::kI64, DType::kU8,   DType::kBool};
constexpr Verb kVerbs[] = {Verb::kAllReduce, Verb::kReduce,    Verb::kReduceScatter, Verb::kAllGather,
                           Verb::kAllToAll,  Verb::kBroadcast, Verb::kGather,        Verb::kScatter};

// Elements of any dtype, seen as doubles.
class Elements {
 public:
  Elements(DType dtype, int64_t count) : dtype_(dtype), bytes_(static_cast<size_t>(count * SizeOf(dtype))) {}

  BufferView View(int64_t begin, int64_t count) {
    return {bytes_.data() + begin * SizeOf(dtype_), count, dtype_, Device()};
  }

  void Set(int64_t i, double value) {
    char* at = bytes_.data() + i * SizeOf(dtype_);
    switch (dtype_) {
      case DType::kF32:
        return Put(at, static_cast<float>(value));
      case DType::kF64:
        return Put(at, value);
      case DType::kF16:
        return Put(at, Float16(static_cast<float>(value)).bits);
      case DType::kBF16:
        return Put(at, BFloat16(static_cast<float>(value)).bits);
      case DType::kI32:
        return Put(at, static_cast<int32_t>(value));
      case DType::kI64:
        return Put(at, static_cast<int64_t>(value));
      case DType::kU8:
        return Put(at, static_cast<uint8_t>(static_cast<int64_t>(value) & 255));
      case DType::kBool:
        return Put(at, static_cast<uint8_t>(value != 0));
    }
  }

  bool operator==(const Elements& other) const { return bytes_ == other.bytes_; }

 private:
  template <class T>
  static void Put(char* at, T value) {
    std::memcpy(at, &value, sizeof(value));
  }

  DType dtype_;
  std::vector<char> bytes_;
};

struct Example {
  Verb verb;
  DType dtype;
  ReduceOp op;
  int root;
  int64_t count;
  bool in_place;

  std::string ToString() const {
    return absl::StrCat(Name(verb), " of ", count, " ", Name(dtype), " (", Name(op), ") root ", root,
                        in_place ? ", in place" : "");
  }
};

// Element i of what `rank` brings: small enough for every dtype to hold sums, and for products to be powers
// of 2.
double Brought(const Example& example, int rank, int64_t i) {
  if (example.dtype == DType::kBool) return (i + rank) % 3 == 0 ? 0 : 1;
  if (example.op == ReduceOp::kProd) return (i * 5 + rank) % 3 == 0 ? 2 : 1;
  const double value = static_cast<double>((i * 7 + rank * 3) % 5);
  return example.dtype == DType::kU8 ? value : value - 2;
}

double Reduced(const Example& example, int world, int64_t i) {
  double result = Brought(example, 0, i);
  for (int rank = 1; rank < world; ++rank) {
    const double value = Brought(example, rank, i);
    switch (example.op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result += value;
        break;
      case ReduceOp::kProd:
        result *= value;
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
    }
  }
  if (example.op != ReduceOp::kAvg) return result;
  if (example.dtype == DType::kF64) return result / world;
  return IsFloat(example.dtype) ? static_cast<float>(result) / static_cast<float>(world)
                                : std::trunc(result / world);
}

// How many elements the verb's whole and part have.
struct Layout {
  int64_t in = 0, out = 0;
  int64_t in_place_begin = 0;  // where the smaller lies in the larger
};

Layout LayoutOf(const Example& example, int world, int rank) {
  const int64_t n = example.count;
  switch (example.verb) {
    case Verb::kReduceScatter:
    case Verb::kScatter:
      return {world * n, n, rank * n};
    case Verb::kAllGather:
    case Verb::kGather:
      return {n, world * n, rank * n};
    case Verb::kAllToAll:
      return {world * n, world * n, 0};
    default:
      return {n, n, 0};
  }
}

double Expected(const Example& example, int world, int rank, int64_t i) {
  const int64_t n = example.count;
  switch (example.verb) {
    case Verb::kReduceScatter:
      return Reduced(example, world, rank * n + i);
    case Verb::kAllGather:
    case Verb::kGather:
      return Brought(example, static_cast<int>(i / n), i % n);
    case Verb::kAllToAll:
      return Brought(example, static_cast<int>(i / n), rank * n + i % n);
    case Verb::kBroadcast:
      return Brought(example, example.root, i);
    case Verb::kScatter:
      return Brought(example, example.root, rank * n + i);
    default:
      return Reduced(example, world, i);
  }
}

Work Call(Communicator& comm, const Example& example, BufferView in, BufferView out) {
  switch (example.verb) {
    case Verb::kAllReduce:
      return comm.AllReduce(out, example.op);
    case Verb::kReduce:
      return comm.Reduce(in, out, example.op, example.root);
    case Verb::kReduceScatter:
      return comm.ReduceScatter(in, out, example.op);
    case Verb::kAllGather:
      return comm.AllGather(in, out);
    case Verb::kAllToAll:
      return comm.AllToAll(in, out);
    case Verb::kBroadcast:
      return comm.Broadcast(out, example.root);
    case Verb::kGather:
      return comm.Gather(in, out, example.root);
    case Verb::kScatter:
      return comm.Scatter(in, out, example.root);
    case Verb::kBarrier:
      break;
  }
  return Work(absl::InternalError("not in the grid"));
}

absl::Status RunExample(Communicator& comm, const Example& example) {
  const int world = comm.size(), rank = comm.rank();
  const Layout layout = LayoutOf(example, world, rank);
  const bool one_buffer = example.verb == Verb::kAllReduce || example.verb == Verb::kBroadcast;
  const bool in_place = one_buffer || (example.in_place && example.verb != Verb::kAllToAll);
  Elements in(example.dtype, std::max(layout.in, layout.out)), out(example.dtype, layout.out);
  const int64_t in_begin = in_place && layout.in < layout.out ? layout.in_place_begin : 0;
  for (int64_t i = 0; i < layout.in; ++i) in.Set(in_begin + i, Brought(example, rank, i));
  const int64_t out_begin = layout.out < layout.in ? layout.in_place_begin : 0;
  BufferView result = in_place ? in.View(out_begin, layout.out) : out.View(0, layout.out);
  ARMATURE_RETURN_IF_ERROR(Call(comm, example, in.View(in_begin, layout.in), result).Wait());

  const bool rooted = example.verb == Verb::kReduce || example.verb == Verb::kGather;
  if (rooted && rank != example.root) return absl::OkStatus();
  Elements expected(example.dtype, layout.out), got(example.dtype, layout.out);
  for (int64_t i = 0; i < layout.out; ++i) expected.Set(i, Expected(example, world, rank, i));
  if (layout.out > 0) std::memcpy(got.View(0, 0).data, result.data, static_cast<size_t>(result.size_bytes()));
  if (got == expected) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(example.ToString(), " on rank ", rank, " of ", world, ": wrong values"));
}

std::vector<Example> Examples(const GridCase& grid) {
  std::vector<Example> examples;
  int64_t number = 0;
  for (Verb verb : kVerbs) {
    for (DType dtype : kDTypes) {
      for (ReduceOp op : kAllReduceOps) {
        if (!IsReduction(verb) && op != ReduceOp::kSum) continue;
        for (int64_t count : {0, 1, 2, 3, 127, 1000, 65537}) {
          const bool sampled = grid.full || count <= 127 || number % 9 == 0;
          const int64_t place = number++;
          if (!sampled) continue;
          for (int root = 0; root < (grid.full ? grid.world : 1); ++root) {
            const int at = grid.full ? root : static_cast<int>(place % grid.world);
            examples.push_back({verb, dtype, op, at, count, place % 2 == 0});
            if (grid.full) examples.push_back({verb, dtype, op, at, count, place % 2 != 0});
          }
        }
      }
    }
  }
  return examples;
}

TEST_P(CommunicatorGrid, EveryVerbGivesTheReferencesValues) {
  ASSERT_OK_AND_ASSIGN(RankList ranks, GetParam().backend.make(GetParam().world, absl::Seconds(60)));
  const std::vector<Example> examples = Examples(GetParam());
  const auto results = OnRanks(ranks, [&](Communicator& comm) {
    absl::Status first;
    for (const Example& example : examples) {
      absl::Status status = RunExample(comm, example);
      if (first.ok()) first = status;
      if (status.code() == absl::StatusCode::kUnavailable) break;
    }
    return first;
  });
  for (const absl::Status& result : results) EXPECT_THAT(result, IsOk());
}

}  // namespace
}  // namespace comm
}  // namespace armature
