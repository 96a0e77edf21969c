#include "armature/tensor/testing/gradient_check.h"

#include <cmath>
#include <memory>

#include "armature/base/status_matchers.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/random.h"
#include "armature/tensor/tape.h"

namespace armature {
namespace {

constexpr double kStep = 1e-5;
constexpr double kAlreadyThere = 0.5;

std::vector<double> Values(int64_t count, uint64_t stream) {
  const RandomKey key = MakeRandomKey(stream, RandomPurpose::kSampling, 0, 0);
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = 2 * UniformFloat(RandomBits(key, 0, i)) - 1;
  return values;
}

Tensor ToTensor(Backend& backend, const Shape& shape, const std::vector<double>& values) {
  return Tensor::FromHost<double>(backend, shape, values, DType::kF64);
}

std::vector<double> ToVector(const Tensor& tensor) {
  std::vector<double> values(tensor.num_elements());
  EXPECT_THAT(tensor.ToHost(values.data()), IsOk());
  return values;
}

// A place for a gradient that holds something already, or nothing.
class Place : public GradientTarget {
 public:
  Place(Tensor place, bool accumulate) : place_(place), accumulate_(accumulate) {}
  GradientSlot Slot() override { return {place_, accumulate_}; }
  void Contributed() override { accumulate_ = true; }
  const Tensor& place() const { return place_; }

 private:
  const Tensor place_;
  bool accumulate_;
};

double Loss(const Tensor& out) {
  EXPECT_THAT(out.status(), IsOk());
  if (!out.ok()) return 0;
  const std::vector<double> values = ToVector(out), weights = Values(out.num_elements(), 99);
  double loss = 0;
  for (size_t i = 0; i < values.size(); ++i) loss += values[i] * weights[i];
  return loss;
}

// The gradient of the loss for each input, by the tape, added to what was there.
std::vector<std::vector<double>> Analytic(Backend& backend, const std::vector<Tensor>& inputs,
                                          const TensorFunction& function, bool accumulate) {
  std::vector<std::unique_ptr<Place>> places;
  Tape tape(backend);
  std::vector<Tensor> watched;
  for (const Tensor& input : inputs) {
    const std::vector<double> before(input.num_elements(), accumulate ? kAlreadyThere : 1e9);
    places.push_back(std::make_unique<Place>(ToTensor(backend, input.shape(), before), accumulate));
    watched.push_back(tape.Watch(input, places.back().get()));
  }
  const Tensor out = function(watched);
  EXPECT_THAT(out.status(), IsOk());
  if (!out.ok()) return {};
  const Tensor seed = ToTensor(backend, out.shape(), Values(out.num_elements(), 99));
  EXPECT_THAT(tape.Backward({out}, {seed}), IsOk());
  std::vector<std::vector<double>> gradients;
  for (const auto& place : places) {
    gradients.push_back(ToVector(place->place()));
    if (accumulate) {
      for (double& value : gradients.back()) value -= kAlreadyThere;
    }
  }
  return gradients;
}

std::vector<double> Numeric(Backend& backend, std::vector<Tensor> inputs, size_t which,
                            const TensorFunction& function) {
  const Shape shape = inputs[which].shape();
  std::vector<double> values = ToVector(inputs[which]), gradient(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    values[i] = value + kStep;
    inputs[which] = ToTensor(backend, shape, values);
    const double above = Loss(function(inputs));
    values[i] = value - kStep;
    inputs[which] = ToTensor(backend, shape, values);
    gradient[i] = (above - Loss(function(inputs))) / (2 * kStep);
    values[i] = value;
  }
  return gradient;
}

}  // namespace

void ExpectGradients(const std::vector<Shape>& shapes, const TensorFunction& function, double tolerance) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, MakeCpuBackend());
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(ToTensor(*backend, shapes[i], Values(shapes[i].num_elements(), i + 1)));
  }
  for (bool accumulate : {false, true}) {
    const std::vector<std::vector<double>> analytic = Analytic(*backend, inputs, function, accumulate);
    ASSERT_EQ(analytic.size(), inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      const std::vector<double> numeric = Numeric(*backend, inputs, k, function);
      double difference = 0, norm = 0;
      for (size_t i = 0; i < numeric.size(); ++i) {
        difference += std::pow(analytic[k][i] - numeric[i], 2);
        norm += std::pow(numeric[i], 2);
      }
      EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm) + 1e-12)
          << "input " << k << (accumulate ? ", accumulated" : "");
    }
  }
  inputs.clear();
  EXPECT_EQ(backend->allocator().total().live_bytes, 0) << "the operation keeps memory";
}

}  // namespace armature
