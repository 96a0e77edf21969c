// JsonLinesSink: a MetricSink that appends a line of JSON for each step to a file:
//
//   {"step":1,"loss":5.54,"grad_norm":2.1,"learning_rate":6e-5,"tokens":4096,"tokens_per_second":31000.0,
//    "step_seconds":0.13,"skipped":false}
//
// With several loss terms each has a field of its name as well. A skipped step adds "skip_reason". Numbers
// that are not finite are null.
#ifndef ARMATURE_ENGINE_JSON_LINES_SINK_H_
#define ARMATURE_ENGINE_JSON_LINES_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/base/file_system.h"
#include "armature/engine/step_result.h"

namespace armature {

// One step's line, without the newline.
std::string ToJson(const StepResult& step);

class JsonLinesSink : public MetricSink {
 public:
  // Goes on at the end of an existing file. `files` must outlive the sink. Errors: those of the file system.
  static absl::StatusOr<std::unique_ptr<JsonLinesSink>> Open(FileSystem& files, absl::string_view path);

  // The line is in the file on return, though not yet synced to the disk.
  absl::Status Report(const StepResult& step) override;

 private:
  JsonLinesSink(std::string path, std::unique_ptr<WritableFile> file);

  const std::string path_;
  const std::unique_ptr<WritableFile> file_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_JSON_LINES_SINK_H_
