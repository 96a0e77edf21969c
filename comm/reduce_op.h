// ReduceOp: how a collective combines the ranks' values of one element.
//
// The order is fixed: a balanced binary tree over the ranks, ((0 + 1) + (2 + 3)) + ..., so the same inputs
// give the same bits, on every backend that runs on CPUs and whatever the timing. f16 and bf16 accumulate in
// f32 and round once.
//
//   SUM, PROD   of integers wrap around
//   AVG         is SUM divided by the number of ranks; of integers it truncates toward zero. The sum is exact
//               for u8 and i32 and wraps for i64
//   MIN, MAX    of a NaN are NaN, whichever rank holds it
//   bool        SUM and MAX are "any", PROD, MIN and AVG are "all" (AVG truncates)
#ifndef ARMATURE_COMM_REDUCE_OP_H_
#define ARMATURE_COMM_REDUCE_OP_H_

#include <cstdint>
#include <ostream>

#include "absl/strings/string_view.h"

namespace armature {
namespace comm {

enum class ReduceOp : uint8_t { kSum, kAvg, kMin, kMax, kProd };

inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                                             ReduceOp::kProd};

// "sum", "avg", "min", "max", "prod".
inline absl::string_view Name(ReduceOp op) {
  constexpr absl::string_view kNames[] = {"sum", "avg", "min", "max", "prod"};
  const int index = static_cast<int>(op);
  return index < 5 ? kNames[index] : "unknown";
}

inline std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << Name(op); }

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_REDUCE_OP_H_
