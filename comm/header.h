// Header: what each collective carries so that ranks that disagree all get InvalidArgument instead of a hang
// or wrong values. Plain bytes: it crosses process borders.
#ifndef ARMATURE_COMM_HEADER_H_
#define ARMATURE_COMM_HEADER_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/comm/operation.h"

namespace armature {
namespace comm {

struct Header {
  uint64_t sequence = 0;  // the how-manieth collective of the group this is
  int64_t count = 0;
  int32_t root = 0;
  Verb verb = Verb::kBarrier;
  ReduceOp reduce_op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  bool uneven = false;            // has lists of parts, which follow the header
  char argument_error[104] = {};  // text, or empty
};

// A header with the parts that this rank sends and receives, one for each rank; both lists are empty unless
// header.uneven.
struct Call {
  const Header* header = nullptr;
  absl::Span<const int64_t> sends;
  absl::Span<const int64_t> receives;
};

Header MakeHeader(const Operation& operation, uint64_t sequence);

// Writes the parts of an uneven operation into lists of `size` entries.
void WriteParts(const Operation& operation, absl::Span<int64_t> sends, absl::Span<int64_t> receives);

// "all-reduce #7 of 100 f32 (sum)".
std::string Describe(const Header& header);

// OK if all calls are the same operation. The same answer on every rank that sees the same calls.
absl::Status Agree(int size, absl::FunctionRef<Call(int rank)> call);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_HEADER_H_
