#include "armature/tensor/tape.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/linear.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  GradientPlace place(*backend_, {2});
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
  GradientPlace place(*backend_, {64, 64});
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
  std::vector<std::vector<double>> gradients;
  for (bool defer : {false, true}) {
    GradientPlace x_place(*backend_, {2, 2}), w_place(*backend_, {2, 2});
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
  GradientPlace place(*backend_, {3});
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
  GradientPlace place(*backend_, {1});
  Tape tape(*backend_);
  Tensor y = Make({1}, {0});
  tape.Record(std::make_unique<Broken>(), {tape.Watch(Make({1}, {1}), &place)}, absl::MakeSpan(&y, 1));
  EXPECT_THAT(tape.Backward({y}, {Make({1}, {1})}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("backward of Broken: first")));
}

TEST_F(TapeTest, CancelledBetweenFunctions) {
  GradientPlace place(*backend_, {1});
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
  GradientPlace place(*backend_, {2});
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

TEST_F(TapeTest, TheFirstContributionOverwritesAndLaterOnesAdd) {
  GradientPlace place(*backend_, {2});
  for (int microbatch = 1; microbatch <= 3; ++microbatch) {
    Tape tape(*backend_);
    const Tensor y = ops::Scale(tape.Watch(Make({2}, {1, 2}), &place), microbatch);
    ASSERT_THAT(tape.Backward({y}, {Make({2}, {1, 10})}), IsOk());
    EXPECT_EQ(place.contributions(), microbatch);
  }
  EXPECT_THAT(place.Values(), ElementsAre(6, 60));
}

TEST_F(TapeTest, ASharedGradientIsCopiedBeforeOneSideAddsToIt) {
  GradientPlace left(*backend_, {2}), right(*backend_, {2});
  Tape tape(*backend_);
  const Tensor a = ops::Scale(tape.Watch(Make({2}, {1, 2}), &left), 1);
  const Tensor b = ops::Scale(tape.Watch(Make({2}, {1, 2}), &right), 1);
  const Tensor twice = ops::Multiply(a, Make({2}, {100, 100}));  // adds to a's gradient after Add shared it
  const Tensor sum = ops::Add(a, b);
  const Tensor seed = Make({2}, {1, 2});
  ASSERT_THAT(tape.Backward({sum, twice}, {seed, Make({2}, {1, 1})}), IsOk());
  EXPECT_THAT(left.Values(), ElementsAre(101, 102));
  EXPECT_THAT(right.Values(), ElementsAre(1, 2));
  EXPECT_THAT(ToDoubles(seed), ElementsAre(1, 2)) << "the caller's tensor is read only";
}

TEST_F(TapeTest, SeedsOfInnerAndRepeatedOutputsAddUp) {
  GradientPlace place(*backend_, {1});
  Tape tape(*backend_);
  const Tensor x = tape.Watch(Make({1}, {1}), &place);
  const Tensor y = ops::Scale(x, 2), z = ops::Scale(y, 3);
  const Tensor one = Make({1}, {1});
  // dz/dx twice, dy/dx, and x itself, a leaf; what is on no tape is passed over.
  ASSERT_THAT(tape.Backward({z, y, z, x, Make({5}, {1, 2, 3, 4, 5})}, {one, one, one, one, Tensor()}),
              IsOk());
  EXPECT_THAT(place.Values(), ElementsAre(6 + 2 + 6 + 1));
}

TEST_F(TapeTest, ASeedOfAnotherShapeIsRefused) {
  for (bool leaf : {false, true}) {
    GradientPlace place(*backend_, {2});
    Tape tape(*backend_);
    const Tensor x = tape.Watch(Make({2}, {1, 2}), &place);
    EXPECT_THAT(tape.Backward({leaf ? x : ops::Scale(x, 2)}, {Make({3}, {1, 1, 1})}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("gradient of shape [3] for a value of shape [2]")));
    EXPECT_EQ(place.contributions(), 0);
  }
}

TEST_F(TapeTest, NoGradientWhereNothingFlows) {
  GradientPlace used(*backend_, {2}), unused(*backend_, {2}), beside(*backend_, {2});
  Tape tape(*backend_);
  const Tensor y = ops::Scale(tape.Watch(Make({2}, {1, 2}), &used), 2);
  tape.Watch(Make({2}, {1, 2}), &unused);
  ops::Scale(tape.Watch(Make({2}, {1, 2}), &beside), 2);
  ASSERT_THAT(tape.Backward({y}, {Make({2}, {1, 1})}), IsOk());
  EXPECT_EQ(used.contributions(), 1);
  EXPECT_EQ(unused.contributions(), 0);
  EXPECT_EQ(beside.contributions(), 0);
}

TEST_F(TapeTest, AFunctionOfTwoOutputsSeesWhichOneGotAGradient) {
  class TwoOutputs : public Function {
   public:
    absl::string_view name() const override { return "TwoOutputs"; }
    void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
      EXPECT_FALSE(grads_out[0].valid());
      EXPECT_TRUE(grads_out[1].ok());
      sink.Add(0, grads_out[1]);
    }
  };
  GradientPlace place(*backend_, {1});
  Tape tape(*backend_);
  Tensor outputs[] = {Make({1}, {0}), Make({1}, {0})};
  tape.Record(std::make_unique<TwoOutputs>(), {tape.Watch(Make({1}, {1}), &place)}, absl::MakeSpan(outputs));
  ASSERT_THAT(tape.Backward({outputs[1]}, {Make({1}, {4})}), IsOk());
  EXPECT_THAT(place.Values(), ElementsAre(4));
}

TEST_F(TapeTest, AReshapedTensorKeepsItsPlaceOnTheTape) {
  GradientPlace x_place(*backend_, {2, 3}), w_place(*backend_, {6, 1});
  const Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6}), w = Make({6, 1}, {1, 0, -1, 2, 0, 3});
  Tape tape(*backend_);
  const Tensor leaf = tape.Watch(x, &x_place);
  const Tensor inner = ops::Scale(leaf, 2).Reshape({1, 6});
  const Tensor y = ops::Linear(inner, tape.Watch(w, &w_place), Tensor());
  ASSERT_THAT(tape.Backward({y}, {Make({1, 1}, {1})}), IsOk());
  EXPECT_THAT(x_place.Values(), ElementsAre(2, 0, -2, 4, 0, 6));
  EXPECT_THAT(w_place.Values(), ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST_F(TapeTest, SavedMemoryShrinksFunctionByFunction) {
  const int64_t bytes = 1000 * 4;
  GradientPlace place(*backend_, {1000});
  Tensor x = Make({1000}, std::vector<float>(1000, 1));
  Tape tape(*backend_);
  Tensor y = ops::Scale(tape.Watch(x, &place), 1);
  for (int i = 0; i < 4; ++i) y = ops::Multiply(y, y);
  const Tensor seed = Make({1000}, std::vector<float>(1000, 1));
  std::vector<int64_t> live;
  BackwardOptions options;
  options.check = [&] {
    live.push_back(backend_->allocator().counters(MemoryCategory::kActivations).live_bytes / bytes);
    return absl::OkStatus();
  };
  EXPECT_EQ(tape.saved_bytes(), 4 * bytes);
  ASSERT_THAT(tape.Backward({y}, {seed}, options), IsOk());
  // Four saved tensors and the result, which the caller holds; each Multiply frees one and makes one
  // gradient.
  EXPECT_THAT(live, ElementsAre(5, 5, 4, 3, 2));
}

TEST_F(TapeTest, ADeferredComputationMayOutliveItsFunctionsName) {
  class Deferring : public Function {
   public:
    absl::string_view name() const override { return name_; }
    void Backward(absl::Span<const Tensor>, GradientSink& sink) override {
      sink.Defer([](GradientSink& later) { later.Fail(absl::DataLossError("late")); });
    }

   private:
    const std::string name_ = "a name too long to be kept inside the string itself";
  };
  GradientPlace place(*backend_, {1});
  Tape tape(*backend_);
  Tensor y = Make({1}, {0});
  tape.Record(std::make_unique<Deferring>(), {tape.Watch(Make({1}, {1}), &place)}, absl::MakeSpan(&y, 1));
  BackwardOptions options;
  options.defer_weight_gradients = true;
  ASSERT_THAT(tape.Backward({y}, {Make({1}, {1})}, options), IsOk());
  EXPECT_THAT(tape.RunDeferred(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a name too long to be kept")));
}

// A residual stream shares one gradient between the branch and the stream, and the deferred product reads it
// after the stream has added to its own.
TEST_F(TapeTest, DeferredProductsReadTheGradientOfTheirMoment) {
  const Tensor x = Make({1, 2}, {1, 2}), w = Make({2, 2}, {0.5, -1, 2, 0.25}), seed = Make({1, 2}, {1, -2});
  std::vector<std::vector<double>> gradients;
  for (bool defer : {false, true}) {
    GradientPlace w_place(*backend_, {2, 2}), x_place(*backend_, {1, 2});
    Tape tape(*backend_);
    Tensor stream = ops::Scale(tape.Watch(x, &x_place), 1);
    for (int layer = 0; layer < 3; ++layer) {
      stream = ops::Add(stream, ops::Linear(stream, tape.Watch(w, &w_place), Tensor()));
    }
    BackwardOptions options;
    options.defer_weight_gradients = defer;
    ASSERT_THAT(tape.Backward({stream}, {seed}, options), IsOk());
    ASSERT_THAT(tape.RunDeferred(), IsOk());
    EXPECT_EQ(w_place.contributions(), 3);
    gradients.push_back(w_place.Values());
    gradients.push_back(x_place.Values());
  }
  EXPECT_EQ(gradients[0], gradients[2]);
  EXPECT_EQ(gradients[1], gradients[3]);
}

TEST_F(TapeTest, MemoryThatRunsOutInTheBackwardIsAnError) {
  CpuOptions options;
  options.memory_limit_bytes = 5 << 20;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> small, MakeCpuBackend(options));
  const Shape shape{1 << 18};  // 1 MiB
  {
    class NoPlace : public GradientTarget {
     public:
      GradientSlot Slot() override { return {}; }
      void Contributed() override { ADD_FAILURE() << "nothing was written"; }
    } target;
    const Tensor x = Tensor::Zeros(*small, shape, DType::kF32, MemoryCategory::kOther);
    Tape tape(*small);
    const Tensor y = ops::Scale(ops::Scale(ops::Scale(tape.Watch(x, &target), 2), 2), 2);
    ASSERT_THAT(y.status(), IsOk());
    std::vector<Tensor> rest;
    do {
      rest.push_back(Tensor::Empty(*small, shape, DType::kF32, MemoryCategory::kOther));
    } while (rest.back().ok());
    EXPECT_THAT(tape.Backward({y}, {x}),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("backward of Scale")));
  }
  EXPECT_EQ(small->allocator().total().live_bytes, 0);
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
