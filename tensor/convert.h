// ConvertElements copies elements of one dtype to another, as loading a bf16 file into f32 weights does.
#ifndef ARMATURE_TENSOR_CONVERT_H_
#define ARMATURE_TENSOR_CONVERT_H_

#include <cstdint>

#include "armature/tensor/dtype.h"

namespace armature {

// True for equal dtypes, and between any two of f32, f16, bf16 and f64.
bool CanConvert(DType from, DType to);

// Converts `count` elements; `from` and `to` need no alignment and don't overlap. CanConvert(from_dtype,
// to_dtype). Narrowing rounds once, to nearest even; NaN stays NaN, and what is too large becomes infinity.
void ConvertElements(const char* from, DType from_dtype, char* to, DType to_dtype, int64_t count);

}  // namespace armature

#endif  // ARMATURE_TENSOR_CONVERT_H_
