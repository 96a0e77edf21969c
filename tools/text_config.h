// Protobuf text files as configurations, with errors that say where.
#ifndef ARMATURE_TOOLS_TEXT_CONFIG_H_
#define ARMATURE_TOOLS_TEXT_CONFIG_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace armature {

// Fills `message` from text. Errors: InvalidArgument as "FILE:LINE:COLUMN: what", `file` being a name for
// messages only.
absl::Status ParseTextConfig(absl::string_view text, absl::string_view file,
                             google::protobuf::Message& message);

// Sets one field of `message`: "engine.learning_rate.peak=1e-3", "engine.recompute=FULL". Lists and whole
// messages are not set this way. Errors: InvalidArgument naming the assignment, and the fields that there are
// instead.
absl::Status SetConfigField(absl::string_view assignment, google::protobuf::Message& message);

}  // namespace armature

#endif  // ARMATURE_TOOLS_TEXT_CONFIG_H_
