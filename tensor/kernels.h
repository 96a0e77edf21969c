// KernelTable: the arithmetic that a backend offers, as functions over raw memory. tensor/ops checks shapes,
// allocates and records gradients; a kernel only computes.
//
// Contract of every kernel
//   - Arguments are already checked; extents may be 0. Pointers are memory of the stream's device, row-major.
//   - `dtype` is that of the data (f32, f16, bf16, f64). Sums are kept in f32 or better (f64 for f64) and
//   rounded once.
//   - Statistics (mean, rstd, lse, losses) and scalars are f32, or f64 when dtype is f64.
//   - `accumulate`: true adds to what is in the output, false overwrites it and never reads it.
//   - An output may be the same memory as an input only where the field says so.
//   - Values do not depend on the number of threads. Matrix products are the exception, in their last bits,
//   unless the
//     number of their parts is fixed (CpuOptions::matmul_parts).
//   - Errors: only those of the device (launch failures, memory for workspace).
//
// A null entry means that the backend leaves the kernel to the scalar reference (CPU) or lacks it (GPU:
// Unimplemented).
#ifndef ARMATURE_TENSOR_KERNELS_H_
#define ARMATURE_TENSOR_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "armature/tensor/dtype.h"
#include "armature/tensor/ignored_target.h"
#include "armature/tensor/random.h"
#include "armature/tensor/stream.h"

namespace armature {

// kGeluErf: x Phi(x). kGeluTanh: the tanh approximation of GPT-2. kSilu: x sigmoid(x).
// Reference: Hendrycks, Gimpel, "Gaussian Error Linear Units" (2016).
enum class Activation : uint8_t { kNone, kGeluErf, kGeluTanh, kSilu, kRelu };

// c = op(a) op(b) for each of `batch` matrices: op(a) [m, k], op(b) [k, n], c [m, n]. `ld*` are the elements
// between two rows of the stored matrix (a is stored [k, m] when transposed), `stride_*` those between two
// matrices.
struct MatMulArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  DType dtype = DType::kF32;  // of a and b
  DType c_dtype = DType::kF32;
  bool accumulate = false;
};

// y = activation(x + bias); x [rows, cols], bias [cols] or null. y may be x. pre, unless null, gets x + bias.
struct BiasActivationArgs {
  const void* x = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  void* pre = nullptr;  // may be x
  int64_t rows = 0, cols = 0;
  Activation activation = Activation::kNone;
  DType dtype = DType::kF32;
};

// dx (+)= dy * activation'(pre). dx may be dy.
struct ActivationBackwardArgs {
  const void* pre = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  int64_t count = 0;
  Activation activation = Activation::kNone;
  DType dtype = DType::kF32;
  bool accumulate = false;
};

// out[c] (+)= sum over rows of x[r, c]: the gradient of a bias.
struct ColumnSumArgs {
  const void* x = nullptr;
  void* out = nullptr;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;  // of x
  DType out_dtype = DType::kF32;
  bool accumulate = false;
};

// LayerNorm: y = (x - mean) rstd weight + bias with rstd = 1 / sqrt(var + eps), variance by two passes or
// Welford. RMSNorm: y = x rstd weight with rstd = 1 / sqrt(mean(x^2) + eps); mean and bias are null.
// Reference: Ba, Kiros, Hinton, "Layer Normalization" (2016); Zhang, Sennrich, "Root Mean Square Layer
// Normalization" (2019).
struct NormArgs {
  const void* x = nullptr;       // [rows, cols]
  const void* weight = nullptr;  // [cols]
  const void* bias = nullptr;    // [cols] or null
  void* y = nullptr;
  void* mean = nullptr;  // [rows], written
  void* rstd = nullptr;  // [rows], written
  int64_t rows = 0, cols = 0;
  double eps = 1e-5;
  DType dtype = DType::kF32;
};

struct NormBackwardArgs {
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* mean = nullptr;  // null for RMSNorm
  const void* rstd = nullptr;
  void* dx = nullptr;       // null if not wanted
  void* dweight = nullptr;  // null if not wanted
  void* dbias = nullptr;    // null if not wanted
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;  // of dy, x, weight, dx
  DType parameter_grad_dtype = DType::kF32;
  bool accumulate_dx = false, accumulate_dweight = false, accumulate_dbias = false;
};

// y = softmax(x) over the last dimension. y may be x.
struct SoftmaxArgs {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;
};

// dx (+)= y (dy - sum(dy y)).
struct SoftmaxBackwardArgs {
  const void* y = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;
  bool accumulate = false;
};

// out = softmax(scale q k^T + mask) v for each sample and head, tiled: scores are never stored.
// q [batch, q_len, heads, dim], k and v [batch, kv_len, kv_heads, dim], out as q. `*_stride` are the elements
// between two positions, so that q, k, v may be parts of one fused tensor; heads lie `dim` apart, samples len
// * stride apart. Query head h reads key head h / (heads / kv_heads). Query i sees key j iff (not causal or j
// <= i + kv_len - q_len) and (no segments or q_segments[i] == kv_segments[j]). A query that sees no key gives
// 0, and its lse is -infinity. Reference: Dao, "FlashAttention-2" (2023).
struct AttentionShape {
  int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, dim = 0;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  double scale = 1;
  bool causal = false;
  const int32_t* q_segments = nullptr;   // [batch, q_len]; both or neither
  const int32_t* kv_segments = nullptr;  // [batch, kv_len]
  // Dropout of the probabilities: kept where UniformFloat >= p, scaled by 1 / (1 - p). The element of sample
  // s, local head h, query i, key j is ((head_offset + h) * q_len + i) * kv_len + j of sample first_sample +
  // s.
  double dropout = 0;
  RandomKey random_key;
  int64_t first_sample = 0, head_offset = 0;
  DType dtype = DType::kF32;
};

struct AttentionArgs {
  AttentionShape shape;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  void* lse = nullptr;  // [batch, heads, q_len]: log of the sum of exponentials, written
};

// Overwrites dq, dk, dv, which have the strides of q, k, v; dout has out's.
struct AttentionBackwardArgs {
  AttentionShape shape;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* out = nullptr;
  const void* lse = nullptr;
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
};

// out[i] = table[ids[i] - first_row], or 0 where that row is not among the table's `rows` (another rank has
// it).
struct EmbeddingArgs {
  const void* table = nullptr;   // [rows, cols]
  const int32_t* ids = nullptr;  // [count]
  void* out = nullptr;           // [count, cols]
  int64_t count = 0, rows = 0, cols = 0, first_row = 0;
  DType dtype = DType::kF32;
};

// dtable[ids[i] - first_row] (+)= dout[i], summed in the order of i. accumulate = false clears the whole
// table first.
struct EmbeddingBackwardArgs {
  const void* dout = nullptr;
  const int32_t* ids = nullptr;
  void* dtable = nullptr;
  int64_t count = 0, rows = 0, cols = 0, first_row = 0;
  DType dtype = DType::kF32;  // of dout
  DType table_grad_dtype = DType::kF32;
  bool accumulate = false;
};

// y = residual + keep * x / (1 - p), keep = UniformFloat(element's bits) >= p. p = 0 is the identity, p = 1
// gives no x. Also its own backward: dx = dropout(dy) with the same region. y may be x or residual.
struct DropoutArgs {
  const void* x = nullptr;         // [samples, region.rows, region.cols]
  const void* residual = nullptr;  // null: none
  void* y = nullptr;
  int64_t samples = 0;
  double p = 0;
  RandomRegion region;
  DType dtype = DType::kF32;
  bool accumulate = false;  // y += (without residual)
};

// y = alpha * a (+ beta * b, unless b is null). y may be a or b.
struct AxpbyArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  int64_t count = 0;
  double alpha = 1, beta = 1;
  DType dtype = DType::kF32;
};

// y (+)= a * b element by element, or a * *b with scalar_b. y may be a.
struct MultiplyArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  int64_t count = 0;
  bool scalar_b = false;
  DType dtype = DType::kF32;
  bool accumulate = false;
};

// *out (+)= sum of x, in a fixed order. out is f32 (f64 for f64).
struct SumArgs {
  const void* x = nullptr;
  void* out = nullptr;
  int64_t count = 0;
  DType dtype = DType::kF32;
  bool accumulate = false;
};

// Losses of rows [rows, stride] of logits, of which the first `classes` columns are real; the others (padding
// of the vocabulary) take no part. With smoothing e: (1-e) nll + e/classes * sum over classes of -log p.
// Probabilities are never stored. A target of -100 gives loss 0; any other that is no class gives NaN, in the
// loss and in its gradient.
struct CrossEntropyArgs {
  const void* logits = nullptr;
  const int32_t* targets = nullptr;
  void* losses = nullptr;  // [rows], written
  void* lse = nullptr;     // [rows], written
  int64_t rows = 0, classes = 0, stride = 0;
  double smoothing = 0;
  DType dtype = DType::kF32;
};

// Vocabulary parallelism: what one rank's columns of the logits, classes [first_class, first_class + classes)
// of all, say about each row. A target that is not among them counts 0.
struct CrossEntropyPartArgs {
  const void* logits = nullptr;  // [rows, stride]
  const int32_t* targets = nullptr;
  // [rows, kCrossEntropyStatistics], written: the maximum, the sum of exp(x - maximum), x at the target, and,
  // unless it is not wanted, the sum of x.
  double* statistics = nullptr;
  int64_t rows = 0, classes = 0, stride = 0, first_class = 0;
  bool with_sum = false;
  DType dtype = DType::kF32;
};
inline constexpr int64_t kCrossEntropyStatistics = 4;

// The losses, as CrossEntropyArgs has them, from the statistics of all parts, which must have the sums if
// there is smoothing.
struct CrossEntropyJoinArgs {
  const double* statistics = nullptr;  // [parts, rows, kCrossEntropyStatistics]
  const int32_t* targets = nullptr;
  void* losses = nullptr;  // [rows], written
  void* lse = nullptr;     // [rows], written
  int64_t parts = 1, rows = 0;
  int64_t classes = 0;  // of all parts
  double smoothing = 0;
  DType dtype = DType::kF32;  // of the logits
};

// dlogits = *dloss * (softmax - target distribution), 0 in padded columns and ignored rows. May be logits'
// memory.
struct CrossEntropyBackwardArgs {
  const void* logits = nullptr;
  const int32_t* targets = nullptr;
  const void* lse = nullptr;
  const void* dloss = nullptr;  // one f32 (f64 for f64)
  void* dlogits = nullptr;
  int64_t rows = 0, classes = 0, stride = 0;
  // The columns are classes [first_class, first_class + classes) of all_classes; 0: there are no others.
  int64_t first_class = 0, all_classes = 0;
  double smoothing = 0;
  DType dtype = DType::kF32;
};

struct CastArgs {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t count = 0;
  DType from = DType::kF32;
  DType to = DType::kF32;
};

// y[i * y_outer + j * y_inner + e] = x[i * x_outer + j * x_inner + e] for i < outer, j < inner, e < block:
// blocks of elements change places. x and y do not overlap, and dtype is any.
struct CopyBlocksArgs {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t outer = 1, inner = 1, block = 0;
  int64_t x_outer = 0, x_inner = 0, y_outer = 0, y_inner = 0;
  DType dtype = DType::kF32;
};

// y[i] = value.
struct FillArgs {
  void* y = nullptr;
  int64_t count = 0;
  double value = 0;
  DType dtype = DType::kF32;
};

// y[r, c] = offset + scale * z, z standard normal or uniform in [0, 1), of element
// (row_offset + r) * global_cols + col_offset + c of sample 0 of the region's key.
struct RandomFillArgs {
  void* y = nullptr;
  RandomRegion region;
  bool normal = true;
  double offset = 0, scale = 1;
  DType dtype = DType::kF32;
};

struct KernelTable {
  absl::Status (*matmul)(Stream&, const MatMulArgs&) = nullptr;
  absl::Status (*bias_activation)(Stream&, const BiasActivationArgs&) = nullptr;
  absl::Status (*activation_backward)(Stream&, const ActivationBackwardArgs&) = nullptr;
  absl::Status (*column_sum)(Stream&, const ColumnSumArgs&) = nullptr;
  absl::Status (*layer_norm)(Stream&, const NormArgs&) = nullptr;
  absl::Status (*layer_norm_backward)(Stream&, const NormBackwardArgs&) = nullptr;
  absl::Status (*rms_norm)(Stream&, const NormArgs&) = nullptr;
  absl::Status (*rms_norm_backward)(Stream&, const NormBackwardArgs&) = nullptr;
  absl::Status (*softmax)(Stream&, const SoftmaxArgs&) = nullptr;
  absl::Status (*softmax_backward)(Stream&, const SoftmaxBackwardArgs&) = nullptr;
  absl::Status (*attention)(Stream&, const AttentionArgs&) = nullptr;
  absl::Status (*attention_backward)(Stream&, const AttentionBackwardArgs&) = nullptr;
  absl::Status (*embedding)(Stream&, const EmbeddingArgs&) = nullptr;
  absl::Status (*embedding_backward)(Stream&, const EmbeddingBackwardArgs&) = nullptr;
  absl::Status (*dropout)(Stream&, const DropoutArgs&) = nullptr;
  absl::Status (*axpby)(Stream&, const AxpbyArgs&) = nullptr;
  absl::Status (*multiply)(Stream&, const MultiplyArgs&) = nullptr;
  absl::Status (*sum)(Stream&, const SumArgs&) = nullptr;
  absl::Status (*cross_entropy)(Stream&, const CrossEntropyArgs&) = nullptr;
  absl::Status (*cross_entropy_part)(Stream&, const CrossEntropyPartArgs&) = nullptr;
  absl::Status (*cross_entropy_join)(Stream&, const CrossEntropyJoinArgs&) = nullptr;
  absl::Status (*cross_entropy_backward)(Stream&, const CrossEntropyBackwardArgs&) = nullptr;
  absl::Status (*copy_blocks)(Stream&, const CopyBlocksArgs&) = nullptr;
  absl::Status (*cast)(Stream&, const CastArgs&) = nullptr;
  absl::Status (*fill)(Stream&, const FillArgs&) = nullptr;
  absl::Status (*random_fill)(Stream&, const RandomFillArgs&) = nullptr;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_KERNELS_H_
