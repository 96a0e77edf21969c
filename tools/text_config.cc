#include "armature/tools/text_config.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "armature/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace armature {
namespace {

// Keeps the first error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string FieldNames(const google::protobuf::Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i) names.push_back(descriptor.field(i)->name());
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::Status ParseTextConfig(absl::string_view text, absl::string_view file,
                             google::protobuf::Message& message) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.MergeFromString(std::string(text), &message)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, ":", error.text()));
}

absl::Status SetConfigField(absl::string_view assignment, google::protobuf::Message& message) {
  const std::vector<std::string> sides = absl::StrSplit(assignment, absl::MaxSplits('=', 1));
  if (sides.size() != 2 || sides[0].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set ", assignment, ": needs the form path.to.field=value"));
  }
  const std::vector<std::string> path = absl::StrSplit(sides[0], '.');
  const google::protobuf::Descriptor* descriptor = message.GetDescriptor();
  // The text that sets the field, inside out: a { b { c: value } }.
  std::string opening, closing;
  for (size_t i = 0; i < path.size(); ++i) {
    const google::protobuf::FieldDescriptor* field =
        descriptor == nullptr ? nullptr : descriptor->FindFieldByName(path[i]);
    if (field == nullptr || field->is_repeated()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", assignment, ": no field \"", path[i], "\"",
                       descriptor == nullptr ? absl::StrCat(" in ", path[i - 1])
                                             : absl::StrCat("; there are ", FieldNames(*descriptor))));
    }
    descriptor = field->message_type();
    if (i + 1 < path.size()) {
      absl::StrAppend(&opening, path[i], " { ");
      absl::StrAppend(&closing, " }");
    } else if (descriptor != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("--set ", assignment, ": ", path[i],
                                                     " has fields of its own: ", FieldNames(*descriptor)));
    } else {
      const bool is_text = field->type() == google::protobuf::FieldDescriptor::TYPE_STRING;
      absl::StrAppend(&opening, path[i], ": ",
                      is_text ? absl::StrCat("\"", absl::CEscape(sides[1]), "\"") : sides[1]);
    }
  }
  return AddContext(ParseTextConfig(opening + closing, "value", message), "--set ", assignment);
}

}  // namespace armature
