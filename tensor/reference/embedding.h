// out[i] = table[ids[i] - first_row], 0 for a row that lies elsewhere; and its gradient.
#ifndef ARMATURE_TENSOR_REFERENCE_EMBEDDING_H_
#define ARMATURE_TENSOR_REFERENCE_EMBEDDING_H_

#include "armature/tensor/kernels.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

template <typename T>
void Embedding(const EmbeddingArgs& args) {
  const Input<T> table(args.table);
  const Output<T> out(args.out);
  for (int64_t i = 0; i < args.count; ++i) {
    const int64_t row = args.ids[i] - args.first_row;
    const bool here = row >= 0 && row < args.rows;
    for (int64_t c = 0; c < args.cols; ++c) {
      out.Write(i * args.cols + c, here ? table[row * args.cols + c] : Number<T>(0));
    }
  }
}

// T: of dout. G: of the table's gradient, to which each row is added in turn: rounded each time, as the order
// of i says.
template <typename T, typename G>
void EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  const Input<T> dout(args.dout);
  const Output<G> dtable(args.dtable);
  for (int64_t i = 0; !args.accumulate && i < args.rows * args.cols; ++i) dtable.Write(i, 0);
  for (int64_t i = 0; i < args.count; ++i) {
    const int64_t row = args.ids[i] - args.first_row;
    if (row < 0 || row >= args.rows) continue;
    for (int64_t c = 0; c < args.cols; ++c) {
      dtable.Write(row * args.cols + c, dout[i * args.cols + c], /*accumulate=*/true);
    }
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_EMBEDDING_H_
