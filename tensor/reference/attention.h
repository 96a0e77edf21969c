// Attention, one query at a time. With s_ij = scale q_i k_j over the keys that query i sees, lse_i = log
// sum_j exp(s_ij), P_ij = exp(s_ij - lse_i) and M_ij the dropout factor (0 or 1 / (1 - p)):
//
//   out_i = sum_j M_ij P_ij v_j
//   dS_ij = P_ij (M_ij dout_i v_j - dout_i out_i)
//   dv_j  = sum_i M_ij P_ij dout_i,   dk_j = scale sum_i dS_ij q_i,   dq_i = scale sum_j dS_ij k_j
#ifndef ARMATURE_TENSOR_REFERENCE_ATTENTION_H_
#define ARMATURE_TENSOR_REFERENCE_ATTENTION_H_

#include <cmath>
#include <limits>
#include <vector>

#include "armature/tensor/kernels.h"
#include "armature/tensor/reference/dropout.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

// Where things lie, and who sees whom. s: sample, h: query head, i: query, j: key.
class AttentionIndex {
 public:
  explicit AttentionIndex(const AttentionShape& shape) : shape_(shape) {}

  int64_t Q(int64_t s, int64_t i, int64_t h) const {
    return (s * shape_.q_len + i) * shape_.q_stride + h * shape_.dim;
  }
  int64_t Out(int64_t s, int64_t i, int64_t h) const {
    return (s * shape_.q_len + i) * shape_.out_stride + h * shape_.dim;
  }
  int64_t K(int64_t s, int64_t j, int64_t kv_head) const {
    return (s * shape_.kv_len + j) * shape_.k_stride + kv_head * shape_.dim;
  }
  int64_t V(int64_t s, int64_t j, int64_t kv_head) const {
    return (s * shape_.kv_len + j) * shape_.v_stride + kv_head * shape_.dim;
  }
  int64_t Lse(int64_t s, int64_t i, int64_t h) const { return (s * shape_.heads + h) * shape_.q_len + i; }
  int64_t KvHead(int64_t h) const { return h / (shape_.heads / shape_.kv_heads); }

  bool Sees(int64_t s, int64_t i, int64_t j) const {
    if (shape_.causal && j > i + shape_.kv_len - shape_.q_len) return false;
    return shape_.q_segments == nullptr ||
           shape_.q_segments[s * shape_.q_len + i] == shape_.kv_segments[s * shape_.kv_len + j];
  }
  // M_ij.
  double Keep(int64_t s, int64_t h, int64_t i, int64_t j) const {
    if (shape_.dropout == 0) return 1;
    const int64_t element = ((shape_.head_offset + h) * shape_.q_len + i) * shape_.kv_len + j;
    return DropoutFactor(shape_.dropout, shape_.random_key, shape_.first_sample + s, element);
  }

 private:
  const AttentionShape& shape_;
};

// Sum of a[i + d] b[j + d] over a head.
template <typename T>
Number<T> Dot(const Input<T>& a, int64_t i, const Input<T>& b, int64_t j, int64_t dim) {
  Number<T> sum = 0;
  for (int64_t d = 0; d < dim; ++d) sum += a[i + d] * b[j + d];
  return sum;
}

template <typename T>
void AttendOneQuery(const AttentionArgs& args, int64_t s, int64_t h, int64_t i) {
  using std::exp, std::log;
  using N = Number<T>;
  const AttentionShape& shape = args.shape;
  const AttentionIndex at(shape);
  const Input<T> q(args.q), k(args.k), v(args.v);
  const int64_t kv_head = at.KvHead(h);
  const auto score = [&](int64_t j) {
    return shape.scale * Dot(q, at.Q(s, i, h), k, at.K(s, j, kv_head), shape.dim);
  };

  N max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < shape.kv_len; ++j) {
    if (at.Sees(s, i, j) && score(j) > max) max = score(j);
  }
  std::vector<N> out(shape.dim, N(0));
  for (int64_t j = 0; j < shape.kv_len; ++j) {
    if (!at.Sees(s, i, j)) continue;
    const N weight = exp(score(j) - max);
    sum += weight;
    const double keep = at.Keep(s, h, i, j);
    for (int64_t d = 0; d < shape.dim; ++d) out[d] += keep * weight * v[at.V(s, j, kv_head) + d];
  }
  const bool sees_none = sum == 0;
  for (int64_t d = 0; d < shape.dim; ++d) {
    Output<T>(args.out).Write(at.Out(s, i, h) + d, sees_none ? N(0) : out[d] / sum);
  }
  Output<Statistic<T>>(args.lse).Write(at.Lse(s, i, h), sees_none ? max : max + log(sum));
}

template <typename T>
void Attention(const AttentionArgs& args) {
  for (int64_t s = 0; s < args.shape.batch; ++s) {
    for (int64_t h = 0; h < args.shape.heads; ++h) {
      for (int64_t i = 0; i < args.shape.q_len; ++i) AttendOneQuery<T>(args, s, h, i);
    }
  }
}

// The backward's terms of one pair (i, j), recomputed wherever they are needed.
template <typename T>
class AttentionPair {
 public:
  AttentionPair(const AttentionBackwardArgs& args, int64_t s, int64_t h, int64_t i, int64_t j) {
    const AttentionShape& shape = args.shape;
    const AttentionIndex at(shape);
    if (!at.Sees(s, i, j)) return;
    const Input<T> q(args.q), k(args.k), v(args.v), out(args.out), dout(args.dout);
    const int64_t kv_head = at.KvHead(h), o = at.Out(s, i, h);
    const Number<T> score = shape.scale * Dot(q, at.Q(s, i, h), k, at.K(s, j, kv_head), shape.dim);
    const Number<T> p = std::exp(score - Input<Statistic<T>>(args.lse)[at.Lse(s, i, h)]);
    const double keep = at.Keep(s, h, i, j);
    kept_probability = keep * p;
    dscore = p * (keep * Dot(dout, o, v, at.V(s, j, kv_head), shape.dim) - Dot(dout, o, out, o, shape.dim));
  }

  Number<T> kept_probability = 0;  // M_ij P_ij
  Number<T> dscore = 0;            // dS_ij
};

template <typename T>
void AttentionQueryGradient(const AttentionBackwardArgs& args, int64_t s, int64_t h, int64_t i) {
  const AttentionShape& shape = args.shape;
  const AttentionIndex at(shape);
  const Input<T> k(args.k);
  std::vector<Number<T>> dq(shape.dim, 0);
  for (int64_t j = 0; j < shape.kv_len; ++j) {
    const AttentionPair<T> pair(args, s, h, i, j);
    const int64_t key = at.K(s, j, at.KvHead(h));
    for (int64_t d = 0; d < shape.dim; ++d) dq[d] += shape.scale * pair.dscore * k[key + d];
  }
  for (int64_t d = 0; d < shape.dim; ++d) Output<T>(args.dq).Write(at.Q(s, i, h) + d, dq[d]);
}

template <typename T>
void AttentionKeyGradients(const AttentionBackwardArgs& args, int64_t s, int64_t kv_head, int64_t j) {
  const AttentionShape& shape = args.shape;
  const AttentionIndex at(shape);
  const Input<T> q(args.q), dout(args.dout);
  std::vector<Number<T>> dk(shape.dim, 0), dv(shape.dim, 0);
  for (int64_t h = 0; h < shape.heads; ++h) {
    if (at.KvHead(h) != kv_head) continue;
    for (int64_t i = 0; i < shape.q_len; ++i) {
      const AttentionPair<T> pair(args, s, h, i, j);
      for (int64_t d = 0; d < shape.dim; ++d) {
        dk[d] += shape.scale * pair.dscore * q[at.Q(s, i, h) + d];
        dv[d] += pair.kept_probability * dout[at.Out(s, i, h) + d];
      }
    }
  }
  for (int64_t d = 0; d < shape.dim; ++d) {
    Output<T>(args.dk).Write(at.K(s, j, kv_head) + d, dk[d]);
    Output<T>(args.dv).Write(at.V(s, j, kv_head) + d, dv[d]);
  }
}

template <typename T>
void AttentionBackward(const AttentionBackwardArgs& args) {
  for (int64_t s = 0; s < args.shape.batch; ++s) {
    for (int64_t h = 0; h < args.shape.heads; ++h) {
      for (int64_t i = 0; i < args.shape.q_len; ++i) AttentionQueryGradient<T>(args, s, h, i);
    }
    for (int64_t h = 0; h < args.shape.kv_heads; ++h) {
      for (int64_t j = 0; j < args.shape.kv_len; ++j) AttentionKeyGradients<T>(args, s, h, j);
    }
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_ATTENTION_H_
