// PrepareTokenFiles: text files to token files for training and validation.
//
//   PrepareOptions options;
//   options.inputs = {"book1.txt", "book2.txt"};
//   options.train_path = "train.tokens";
//   options.validation_path = "validation.tokens";
//   ARMATURE_ASSIGN_OR_RETURN(PrepareResult result, PrepareTokenFiles(files, ByteTokenizer(), options));
//
// The inputs count as one text, in the order given; its last part becomes the validation file, so that no
// validation text is interleaved with training text.
#ifndef ARMATURE_DATA_PREPARE_H_
#define ARMATURE_DATA_PREPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "armature/base/file_system.h"
#include "armature/data/tokenizer.h"

namespace armature {

struct PrepareOptions {
  std::vector<std::string> inputs;
  std::string train_path;
  std::string validation_path;
  // The share of the text's bytes, in [0, 1), that goes to validation. The cut moves on to the next UTF-8
  // character. 0 writes no validation file.
  double validation_fraction = 0.1;
  // A token to add after each input, such as the tokenizer's end of text. None by default.
  absl::optional<int32_t> separator;
  // Text is encoded in pieces of about this size. Changes memory, never the result.
  int64_t piece_bytes = 1 << 20;
};

struct PrepareResult {
  int64_t train_tokens = 0;
  int64_t validation_tokens = 0;
};

// Writes both files. After an error neither is there in part: each is as it was before, or whole.
//
// Errors: InvalidArgument for bad options or text that the tokenizer refuses, naming the input; those of the
//         file system.
//
// Memory: a few pieces; the inputs are mapped.
absl::StatusOr<PrepareResult> PrepareTokenFiles(FileSystem& files, const Tokenizer& tokenizer,
                                                const PrepareOptions& options);

}  // namespace armature

#endif  // ARMATURE_DATA_PREPARE_H_
