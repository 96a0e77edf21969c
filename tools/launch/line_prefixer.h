// LinePrefixer: puts a prefix before each line of a stream that comes in pieces.
#ifndef ARMATURE_TOOLS_LAUNCH_LINE_PREFIXER_H_
#define ARMATURE_TOOLS_LAUNCH_LINE_PREFIXER_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace armature {
namespace launch {

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // The whole lines that `bytes` completes, each with its prefix. What is left waits for its end, but not
  // beyond 64 KiB.
  std::string Add(absl::string_view bytes) {
    std::string lines;
    rest_.append(bytes.data(), bytes.size());
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      absl::StrAppend(&lines, prefix_, absl::string_view(rest_).substr(begin, end + 1 - begin));
    }
    rest_.erase(0, begin);
    if (rest_.size() > kLongestLine) lines += Finish();
    return lines;
  }

  // The last line if it did not end, with an end.
  std::string Finish() {
    if (rest_.empty()) return "";
    return absl::StrCat(prefix_, std::exchange(rest_, std::string()), "\n");
  }

 private:
  static constexpr size_t kLongestLine = 64 << 10;

  const std::string prefix_;
  std::string rest_;
};

}  // namespace launch
}  // namespace armature

#endif  // ARMATURE_TOOLS_LAUNCH_LINE_PREFIXER_H_
