// A small model's tensors for the tests of checkpoints.
#ifndef ARMATURE_CHECKPOINT_CHECKPOINTER_TEST_STATE_H_
#define ARMATURE_CHECKPOINT_CHECKPOINTER_TEST_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/tensor/sharded_array.h"
#include "armature/checkpoint/train_state.pb.h"

namespace armature {

template <typename T>
ShardedArray ArrayOf(std::string name, Shape global_shape, Slice slice, DType dtype,
                     std::vector<T>& elements) {
  ShardedArray array;
  array.name = std::move(name);
  array.global_shape = global_shape;
  array.slice = std::move(slice);
  array.local.data = elements.data();
  array.local.count = static_cast<int64_t>(elements.size());
  array.local.dtype = dtype;
  return array;
}

// Four tensors, one of them saved in two slices, whose elements all follow from one number.
struct TestModel {
  explicit TestModel(int seed = 0) {
    for (int i = 0; i < 6; ++i) top[i] = static_cast<float>(100 * seed + i), bottom[i] = -top[i];
    for (int i = 0; i < 5; ++i) half[i] = static_cast<uint16_t>(seed + i);
    count[0] = seed;
  }

  std::vector<ShardedArray> Arrays() {
    return {ArrayOf("weight", {4, 3}, {{0, 0}, {2, 3}}, DType::kF32, top),
            ArrayOf("weight", {4, 3}, {{2, 0}, {2, 3}}, DType::kF32, bottom),
            ArrayOf("half", {5}, WholeSlice({5}), DType::kBF16, half),
            ArrayOf("count", {}, WholeSlice({}), DType::kI64, count),
            ArrayOf("none", {2, 0}, WholeSlice({2, 0}), DType::kF32, none)};
  }

  friend bool operator==(const TestModel& a, const TestModel& b) {
    return a.top == b.top && a.bottom == b.bottom && a.half == b.half && a.count == b.count;
  }

  std::vector<float> top = std::vector<float>(6), bottom = std::vector<float>(6), none;
  std::vector<uint16_t> half = std::vector<uint16_t>(5);
  std::vector<int64_t> count = std::vector<int64_t>(1);
};

inline TrainState TestState(int64_t update_count) {
  TrainState state;
  state.set_update_count(update_count);
  state.set_data_position(absl::StrCat("epoch 2 index ", update_count * 8));
  state.mutable_loss_scaler()->set_scale(65536);
  state.set_seed(~uint64_t{0});
  state.set_host("\xFF any bytes");
  return state;
}

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_CHECKPOINTER_TEST_STATE_H_
