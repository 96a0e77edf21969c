// GradientPlace: a leaf's gradient in a test. The first contribution overwrites, later ones are added.
//
//   GradientPlace place(*backend, {2, 3});
//   Tensor x = tape.Watch(value, &place);
//   ...
//   EXPECT_THAT(place.Values(), ElementsAre(...));
#ifndef ARMATURE_TENSOR_TESTING_GRADIENT_PLACE_H_
#define ARMATURE_TENSOR_TESTING_GRADIENT_PLACE_H_

#include <utility>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/tape.h"
#include "armature/tensor/tensor.h"

namespace armature {

// The elements of a tensor of any float dtype, as f64, in which all of them are exact.
inline std::vector<double> ToDoubles(const Tensor& tensor) {
  EXPECT_THAT(tensor.status(), IsOk());
  if (!tensor.ok()) return {};
  Backend& backend = tensor.backend();
  const Tensor wide = Tensor::Empty(backend, tensor.shape(), DType::kF64, MemoryCategory::kOther);
  CastArgs cast;
  cast.x = tensor.data();
  cast.y = wide.data();
  cast.count = tensor.num_elements();
  cast.from = tensor.dtype();
  cast.to = DType::kF64;
  EXPECT_THAT(backend.kernels().cast(backend.compute_stream(), cast), IsOk());
  std::vector<double> values(tensor.num_elements());
  EXPECT_THAT(wide.ToHost(values.data()), IsOk());
  return values;
}

// A tensor of these values, rounded to `dtype`.
inline Tensor FromDoubles(Backend& backend, const Shape& shape, const std::vector<double>& values,
                          DType dtype = DType::kF32) {
  const Tensor wide = Tensor::FromHost<double>(backend, shape, values, DType::kF64);
  const Tensor rounded = Tensor::Empty(backend, shape, dtype, MemoryCategory::kOther);
  CastArgs cast;
  cast.x = wide.data();
  cast.y = rounded.data();
  cast.count = rounded.num_elements();
  cast.from = DType::kF64;
  cast.to = dtype;
  EXPECT_THAT(backend.kernels().cast(backend.compute_stream(), cast), IsOk());
  return rounded;
}

class GradientPlace : public GradientTarget {
 public:
  // `dtype` may be wider than the leaf's. The place begins as garbage that a first contribution must not
  // read.
  GradientPlace(Backend& backend, const Shape& shape, DType dtype = DType::kF32)
      : place_(FromDoubles(backend, shape, std::vector<double>(shape.num_elements(), kGarbage), dtype)) {}

  GradientSlot Slot() override { return {place_, contributions_ > 0}; }
  void Contributed() override { ++contributions_; }

  int contributions() const { return contributions_; }
  std::vector<double> Values() const { return ToDoubles(place_); }

 private:
  static constexpr double kGarbage = 12345;
  const Tensor place_;
  int contributions_ = 0;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_TESTING_GRADIENT_PLACE_H_
