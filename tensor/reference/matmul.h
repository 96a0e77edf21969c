// c (+)= op(a) op(b), element by element in f64.
#ifndef ARMATURE_TENSOR_REFERENCE_MATMUL_H_
#define ARMATURE_TENSOR_REFERENCE_MATMUL_H_

#include "armature/tensor/kernels.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

// T: of a and b. C: of c.
template <typename T, typename C>
void MatMul(const MatMulArgs& args) {
  const Input<T> a(args.a), b(args.b);
  const Output<C> c(args.c);
  const auto a_at = [&](int64_t s, int64_t i, int64_t l) {
    return a[s * args.stride_a + (args.transpose_a ? l * args.lda + i : i * args.lda + l)];
  };
  const auto b_at = [&](int64_t s, int64_t l, int64_t j) {
    return b[s * args.stride_b + (args.transpose_b ? j * args.ldb + l : l * args.ldb + j)];
  };
  for (int64_t s = 0; s < args.batch; ++s) {
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.n; ++j) {
        Number<T> sum = 0;
        for (int64_t l = 0; l < args.k; ++l) sum += a_at(s, i, l) * b_at(s, l, j);
        c.Write(s * args.stride_c + i * args.ldc + j, sum, args.accumulate);
      }
    }
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_MATMUL_H_
