#include "armature/data/language_model_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace {

absl::Status CheckOptions(const LanguageModelOptions& options) {
  if (options.sequence_length <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence_length ", options.sequence_length, " is not positive"));
  }
  if (options.batch_size <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size ", options.batch_size, " is not positive"));
  }
  if (options.num_epochs < 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_epochs ", options.num_epochs, " is negative"));
  }
  if (options.num_ranks <= 0 || options.rank < 0 || options.rank >= options.num_ranks) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank, " of ", options.num_ranks));
  }
  return Shape::Create({options.batch_size, options.sequence_length}).status();
}

int64_t CountWindows(int64_t num_tokens, const LanguageModelOptions& options) {
  const int64_t targets = std::max<int64_t>(0, num_tokens - 1);
  const bool rest = targets % options.sequence_length != 0;
  return targets / options.sequence_length + (options.partial_window && rest ? 1 : 0);
}

// The value of "name=value". False if `text` is not that.
bool ParseFact(absl::string_view text, absl::string_view name, int64_t& value) {
  return absl::ConsumePrefix(&text, name) && absl::ConsumePrefix(&text, "=") &&
         absl::SimpleAtoi(text, &value);
}

}  // namespace

LanguageModelOptions EvaluationOptions(int64_t sequence_length, int64_t batch_size) {
  LanguageModelOptions options;
  options.sequence_length = sequence_length;
  options.batch_size = batch_size;
  options.shuffle = false;
  options.tail = Tail::kKeep;
  options.num_epochs = 1;
  options.partial_window = true;
  return options;
}

absl::StatusOr<std::unique_ptr<LanguageModelSource>> LanguageModelSource::Create(
    std::shared_ptr<const TokenFile> file, const LanguageModelOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckOptions(options));
  SamplerOptions sampler_options;
  sampler_options.num_samples = CountWindows(file->num_tokens(), options);
  sampler_options.seed = options.seed;
  sampler_options.shuffle = options.shuffle;
  sampler_options.tail = options.tail;
  const int64_t needed = options.tail == Tail::kDrop ? options.batch_size : 1;
  if (sampler_options.num_samples < needed) {
    return absl::InvalidArgumentError(absl::StrCat(
        file->path(), ": ", file->num_tokens(), " tokens make ", sampler_options.num_samples, " samples of ",
        options.sequence_length, " tokens and their successors; a batch needs ", needed));
  }
  ARMATURE_ASSIGN_OR_RETURN(const Sampler sampler, Sampler::Create(sampler_options));
  return std::unique_ptr<LanguageModelSource>(new LanguageModelSource(std::move(file), options, sampler));
}

absl::Status LanguageModelSource::ReadWindow(int64_t sample, absl::Span<int32_t> tokens,
                                             absl::Span<int32_t> targets) const {
  const int64_t begin = sample * options_.sequence_length;
  const size_t count = std::min(options_.sequence_length, file_->num_tokens() - 1 - begin);
  ARMATURE_RETURN_IF_ERROR(file_->Read(begin, tokens.first(count)));
  return file_->Read(begin + 1, targets.first(count));
}

absl::StatusOr<absl::optional<Batch>> LanguageModelSource::Next() {
  SamplePosition position = sampler_.Normalized(options_.batch_size, position_);
  if (options_.num_epochs > 0 && position.epoch >= options_.num_epochs) return absl::nullopt;
  const SampleDraw draw = sampler_.Draw(options_.batch_size, position);
  const RankShare share =
      ShareOfRank(static_cast<int64_t>(draw.samples.size()), options_.rank, options_.num_ranks);
  const Shape shape({share.end - share.begin, options_.sequence_length});
  ARMATURE_ASSIGN_OR_RETURN(Array tokens, Array::Create(shape, DType::kI32));
  ARMATURE_ASSIGN_OR_RETURN(Array targets, Array::Create(shape, DType::kI32));
  const absl::Span<int32_t> target_values = targets.values<int32_t>();
  std::fill(target_values.begin(), target_values.end(), kIgnoredTarget);
  // Padding samples stay as they are: their targets are ignored.
  for (int64_t i = share.begin; i < std::min(share.end, draw.num_real); ++i) {
    const int64_t offset = (i - share.begin) * options_.sequence_length;
    ARMATURE_RETURN_IF_ERROR(ReadWindow(draw.samples[i],
                                        tokens.values<int32_t>().subspan(offset, options_.sequence_length),
                                        target_values.subspan(offset, options_.sequence_length)));
  }
  Batch batch;
  batch.first_sample = share.begin;
  batch.fields.push_back({"tokens", std::move(tokens)});
  batch.fields.push_back({"targets", std::move(targets)});
  position_ = position;
  return batch;
}

std::string LanguageModelSource::Facts() const {
  return absl::StrCat("samples=", num_samples(), " sequence=", options_.sequence_length,
                      " seed=", options_.seed, " shuffle=", options_.shuffle ? 1 : 0);
}

std::string LanguageModelSource::Position() const {
  return absl::StrCat("epoch=", position_.epoch, " index=", position_.index, " ", Facts());
}

absl::Status LanguageModelSource::Restore(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(' ', 2));
  SamplePosition position;
  if (parts.size() != 3 || !ParseFact(parts[0], "epoch", position.epoch) ||
      !ParseFact(parts[1], "index", position.index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no position of a language model source"));
  }
  if (parts[2] != Facts()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the position is one of data with ", parts[2], ", and this source has ", Facts()));
  }
  if (position.epoch < 0 || position.index < 0 || position.index > num_samples()) {
    return absl::InvalidArgumentError(absl::StrCat("position \"", text, "\" lies outside the data"));
  }
  position_ = position;
  return absl::OkStatus();
}

}  // namespace armature
