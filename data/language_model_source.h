// LanguageModelSource: windows of a token file as batches for next-token prediction.
//
// Sample k is the window of tokens [k*T, k*T + T] for sequence length T: its first T tokens are the input and
// its last T the targets. So each token of the file but the first is a target in exactly one sample, save
// those of a last window that is left out because it has fewer than T.
//
// Fields: "tokens"  [batch, T] i32
//         "targets" [batch, T] i32: the token that follows, or kIgnoredTarget in padding
//
// The order of samples depends on neither the ranks nor where the run was stopped (sampler.h). Each of
// several processes makes its own source with its own `rank`, and gets its share of every global batch;
// first_sample says where the share begins. A last batch that is smaller than the number of ranks gives some
// of them a batch of no samples.
#ifndef ARMATURE_DATA_LANGUAGE_MODEL_SOURCE_H_
#define ARMATURE_DATA_LANGUAGE_MODEL_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "armature/data/batch_source.h"
#include "armature/data/sampler.h"
#include "armature/data/token_file.h"

namespace armature {

struct LanguageModelOptions {
  // Tokens of a sample, T. No default.
  int64_t sequence_length = 0;
  // Samples of a global batch, over all ranks. No default.
  int64_t batch_size = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  // Tail::kPad fills the last batch with samples whose targets are all ignored.
  Tail tail = Tail::kDrop;
  // Passes over the file; 0 means without end.
  int64_t num_epochs = 0;
  // Also a last window of fewer than T targets, filled up with token 0 and ignored targets.
  bool partial_window = false;
  int64_t rank = 0;
  int64_t num_ranks = 1;
};

// One pass in file order, every target of the file once: what a validation loss is measured on.
LanguageModelOptions EvaluationOptions(int64_t sequence_length, int64_t batch_size);

class LanguageModelSource final : public BatchSource {
 public:
  // `file` is shared with other sources.
  // Errors: InvalidArgument naming the option, or the file if it is too short for one batch.
  static absl::StatusOr<std::unique_ptr<LanguageModelSource>> Create(std::shared_ptr<const TokenFile> file,
                                                                     const LanguageModelOptions& options);

  absl::StatusOr<absl::optional<Batch>> Next() override;
  std::string Position() const override;
  absl::Status Restore(absl::string_view position) override;

  int64_t num_samples() const { return sampler_.options().num_samples; }

 private:
  LanguageModelSource(std::shared_ptr<const TokenFile> file, const LanguageModelOptions& options,
                      const Sampler& sampler)
      : file_(std::move(file)), options_(options), sampler_(sampler) {}

  // The order's facts, which a position carries so that it is not taken for one of other data.
  std::string Facts() const;
  absl::Status ReadWindow(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const;

  const std::shared_ptr<const TokenFile> file_;
  const LanguageModelOptions options_;
  const Sampler sampler_;
  SamplePosition position_;
};

}  // namespace armature

#endif  // ARMATURE_DATA_LANGUAGE_MODEL_SOURCE_H_
