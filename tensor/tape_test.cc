#include "armature/tensor/tape.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/linear.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Place : public GradientTarget {
 public:
  Place(Backend& backend, const Shape& shape, DType dtype = DType::kF32)
      : place_(Tensor::Zeros(backend, shape, dtype, MemoryCategory::kGradients)) {}
  GradientSlot Slot() override { return {place_, contributions_ > 0}; }
  void Contributed() override { ++contributions_; }
  std::vector<float> Values() const {
    std::vector<float> values(place_.num_elements());
    EXPECT_THAT(place_.ToHost(values.data()), IsOk());
    return values;
  }
  int contributions() const { return contributions_; }

 private:
  const Tensor place_;
  int contributions_ = 0;
};

class TapeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend()); }
  Tensor Make(const Shape& shape, const std::vector<float>& values) {
    return Tensor::FromHost<float>(*backend_, shape, values, DType::kF32);
  }
  std::unique_ptr<Backend> backend_;
};

// Notes the order in which functions run, and passes its gradient on.
class Noted : public Function {
 public:
  Noted(std::string name, std::vector<std::string>& log) : name_(std::move(name)), log_(log) {}
  ~Noted() override { log_.push_back("~" + name_); }
  absl::string_view name() const override { return name_; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    log_.push_back(name_);
    sink.Add(0, grads_out[0]);
  }

 private:
  const std::string name_;
  std::vector<std::string>& log_;
};

TEST_F(TapeTest, WalksInReverseAndDestroysEachFunctionAsItPasses) {
  std::vector<std::string> log;
  Tape tape(*backend_);
  Place place(*backend_, {2});
  Tensor x = tape.Watch(Make({2}, {1, 2}), &place);
  for (const char* name : {"a", "b", "c"}) {
    Tensor y = Make({2}, {0, 0});
    tape.Record(std::make_unique<Noted>(name, log), {x}, absl::MakeSpan(&y, 1));
    x = y;
  }
  // Nothing flows into it: it is passed over.
  Tensor unused = Make({2}, {0, 0});
  tape.Record(std::make_unique<Noted>("unused", log), {x}, absl::MakeSpan(&unused, 1));
  ASSERT_THAT(tape.Backward({x}, {Make({2}, {3, 4})}), IsOk());
  EXPECT_THAT(log, ElementsAre("~unused", "c", "~c", "b", "~b", "a", "~a"));
  EXPECT_THAT(place.Values(), ElementsAre(3, 4));
}

TEST_F(TapeTest, SavedMemoryIsFreedAsTheWalkPasses) {
  Place place(*backend_, {64, 64});
  const Tensor w = Make({64, 64}, std::vector<float>(64 * 64, 0.01f));
  const int64_t before = backend_->allocator().counters(MemoryCategory::kActivations).live_bytes;
  {
    Tape tape(*backend_);
    Tensor x = tape.Watch(w, &place);
    for (int i = 0; i < 4; ++i) x = ops::Linear(x, w, Tensor());
    // The inputs of three products; the leaf's memory, which is w's too, does not count.
    EXPECT_EQ(tape.saved_bytes(), 3 * 64 * 64 * 4);
    const Tensor seed = Make({64, 64}, std::vector<float>(64 * 64, 1));
    ASSERT_THAT(tape.Backward({x}, {seed}), IsOk());
    EXPECT_EQ(tape.saved_bytes(), 0);
  }
  EXPECT_EQ(backend_->allocator().counters(MemoryCategory::kActivations).live_bytes, before);
}

TEST_F(TapeTest, DeferredWeightGradientsHaveTheSameBits) {
  const Tensor x = Make({2, 2}, {1, 2, 3, 4}), w = Make({2, 2}, {0.5, -1, 2, 0.25}),
               seed = Make({2, 2}, {1, -2, 3, 5});
  std::vector<std::vector<float>> gradients;
  for (bool defer : {false, true}) {
    Place x_place(*backend_, {2, 2}), w_place(*backend_, {2, 2});
    Tape tape(*backend_);
    const Tensor y = ops::Linear(tape.Watch(x, &x_place), tape.Watch(w, &w_place), Tensor());
    BackwardOptions options;
    options.defer_weight_gradients = defer;
    ASSERT_THAT(tape.Backward({y}, {seed}, options), IsOk());
    EXPECT_EQ(x_place.contributions(), 1);
    EXPECT_EQ(w_place.contributions(), defer ? 0 : 1);
    ASSERT_THAT(tape.RunDeferred(), IsOk());
    EXPECT_EQ(w_place.contributions(), 1);
    ASSERT_THAT(tape.RunDeferred(), IsOk());  // nothing is left
    EXPECT_EQ(w_place.contributions(), 1);
    gradients.push_back(w_place.Values());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST_F(TapeTest, ALeafMayHaveAWiderGradient) {
  Place place(*backend_, {3});
  const Tensor x = ops::Cast(Make({3}, {1, 2, 3}), DType::kBF16);
  Tape tape(*backend_);
  const Tensor leaf = tape.Watch(x, &place);
  const Tensor y = ops::Add(leaf, leaf);
  const Tensor seed = ops::Cast(Make({3}, {1, 0.5, 4}), DType::kBF16);
  ASSERT_THAT(tape.Backward({y}, {seed}), IsOk());
  EXPECT_THAT(place.Values(), ElementsAre(2, 1, 8));
}

TEST_F(TapeTest, TheFirstErrorComesOutWithTheOperationsName) {
  class Broken : public Function {
   public:
    absl::string_view name() const override { return "Broken"; }
    void Backward(absl::Span<const Tensor>, GradientSink& sink) override {
      sink.Fail(absl::DataLossError("first"));
      sink.Fail(absl::DataLossError("second"));
    }
  };
  Place place(*backend_, {1});
  Tape tape(*backend_);
  Tensor y = Make({1}, {0});
  tape.Record(std::make_unique<Broken>(), {tape.Watch(Make({1}, {1}), &place)}, absl::MakeSpan(&y, 1));
  EXPECT_THAT(tape.Backward({y}, {Make({1}, {1})}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("backward of Broken: first")));
}

TEST_F(TapeTest, CancelledBetweenFunctions) {
  Place place(*backend_, {1});
  Tape tape(*backend_);
  Tensor y = tape.Watch(Make({1}, {1}), &place);
  for (int i = 0; i < 3; ++i) y = ops::Scale(y, 2);
  int asked = 0;
  BackwardOptions options;
  options.check = [&] { return ++asked == 2 ? absl::CancelledError("stop") : absl::OkStatus(); };
  EXPECT_THAT(tape.Backward({y}, {Make({1}, {1})}, options), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(place.contributions(), 0);
}

TEST_F(TapeTest, MisuseIsAnError) {
  Place place(*backend_, {2});
  Tape tape(*backend_), other(*backend_);
  const Tensor x = tape.Watch(Make({2}, {1, 2}), &place), z = other.Watch(Make({2}, {1, 2}), &place);
  EXPECT_THAT(ops::Add(x, z).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("different tapes")));
  EXPECT_THAT(x.Slice(0, 1).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ops::Slice")));
  const Tensor y = ops::Scale(x, 2);
  EXPECT_THAT(tape.Backward({y}, {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(tape.Backward({y}, {Make({2}, {1, 1})}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("called before")));
}

TEST_F(TapeTest, FailedTensorsPassTheFirstErrorOn) {
  const Tensor bad = ops::Add(Make({2}, {1, 2}), Make({3}, {1, 2, 3}));
  EXPECT_THAT(bad.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Add: [2] f32 and [3] f32")));
  const Tensor later =
      ops::Scale(ops::Multiply(ops::Sum(bad), Tensor::Failed(absl::DataLossError("later"))), 3);
  EXPECT_EQ(later.status(), bad.status());
  EXPECT_THAT(Tensor().status(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Make({4}, {1, 2, 3, 4}).Slice(2, 5).status(), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(Make({4}, {1, 2, 3, 4}).Reshape({3}).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace armature
