// ExpectConforms: what every vector kernel promises, checked in one call.
//
//   ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
//     std::vector<float> y(n);
//     ... EXPECT_THAT(kernels.softmax(stream, args), IsOk());
//     return y;
//   });
#ifndef ARMATURE_TENSOR_CPU_CONFORMANCE_H_
#define ARMATURE_TENSOR_CPU_CONFORMANCE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "armature/tensor/kernels.h"

namespace armature {

// Everything that a kernel wrote, in a fixed order.
using KernelRun = absl::FunctionRef<std::vector<float>(const KernelTable& kernels, Stream& stream)>;

// Expects of the CPU's kernels, on every Highway target that this processor has:
//   - |value - reference| <= tolerance * max(|reference|, scale) for each value (NaN only where the reference
//   has NaN);
//   - the same bits with teams of 1, 2 and 3 threads.
void ExpectConforms(KernelRun run, double tolerance = 2e-6, double scale = 1);

// Numbers in [-2, 2), the same on every call with the same seed.
std::vector<float> TestValues(int64_t count, uint32_t seed);

}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_CONFORMANCE_H_
