#include "armature/checkpoint/safetensors_header.h"

#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "armature/checkpoint/utf8.h"
#include "nlohmann/json.hpp"

namespace armature {
namespace {

// Names in error messages come from files: keep them short and printable.
std::string Quote(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, 200)), "\"");
}

// Receives the parser's events. A callback that returns false stops the parse; status() then says why. This
// interface of the JSON library throws nothing and shows every key, where its tree would keep only the last
// of two.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  absl::Status status() const { return status_; }
  SafetensorsHeader TakeHeader() { return std::move(header_); }

  bool start_object(std::size_t) override {
    switch (at_) {
      case At::kStart:
        at_ = At::kTop;
        return true;
      case At::kTop:
        at_ = key_ == kSafetensorsMetadataKey ? At::kMetadata : At::kTensor;
        keys_.clear();
        if (at_ == At::kTensor) {
          header_.tensors.emplace_back();
          header_.tensors.back().name = key_;
        }
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool end_object() override {
    if (at_ == At::kTensor && keys_.size() != 3) {
      return Fail(TensorName(), " lacks dtype, shape or data_offsets");
    }
    at_ = at_ == At::kTop ? At::kStart : At::kTop;
    return true;
  }

  bool key(std::string& key) override {
    key_ = key;
    const bool is_new = at_ == At::kTop ? top_keys_.insert(key).second : keys_.insert(key).second;
    if (!is_new) return Fail("key ", Quote(key), " stands twice in ", Where());
    if (at_ == At::kTensor && key != "dtype" && key != "shape" && key != "data_offsets") {
      return Fail(TensorName(), " has the unknown field ", Quote(key));
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (at_ != At::kTensor || key_ == "dtype") return Unexpected("an array");
    at_ = At::kArray;
    return true;
  }

  bool end_array() override {
    at_ = At::kTensor;
    if (key_ == "data_offsets" && header_.tensors.back().data_offsets.size() != 2) {
      return Fail("data_offsets of ", TensorName(), " are not two numbers");
    }
    return true;
  }

  bool string(std::string& value) override {
    if (at_ == At::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (at_ != At::kTensor || key_ != "dtype") return Unexpected("a string");
    header_.tensors.back().dtype = std::move(value);
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (at_ != At::kArray) return Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return NotASize(absl::StrCat(value));
    SafetensorsHeader::Tensor& tensor = header_.tensors.back();
    std::vector<int64_t>& numbers = key_ == "shape" ? tensor.shape : tensor.data_offsets;
    // Longer than any valid list: stop before a hostile header fills the memory.
    if (numbers.size() > Shape::kMaxRank) {
      return Fail(key_, " of ", TensorName(), " has more than ", Shape::kMaxRank, " numbers");
    }
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(std::int64_t value) override { return NotASize(absl::StrCat(value)); }
  bool number_float(double, const std::string& text) override { return NotASize(text); }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { return Unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return Fail("the header is not JSON: syntax error at its byte ", position);
  }

 private:
  enum class At { kStart, kTop, kTensor, kMetadata, kArray };

  template <typename... Parts>
  bool Fail(const Parts&... parts) {
    status_ = absl::InvalidArgumentError(absl::StrCat(parts...));
    return false;
  }
  bool Unexpected(absl::string_view what) { return Fail(what, " where the format has none, in ", Where()); }
  bool NotASize(absl::string_view text) {
    return Fail(text.substr(0, 40), " in ", Where(), " is not a whole number from 0 to 2^63-1");
  }
  std::string TensorName() const { return absl::StrCat("tensor ", Quote(header_.tensors.back().name)); }
  std::string Where() const {
    switch (at_) {
      case At::kStart:
        return "the header";
      case At::kTop:
        return key_.empty() ? "the header" : absl::StrCat("the header at ", Quote(key_));
      case At::kMetadata:
        return std::string(kSafetensorsMetadataKey);
      case At::kTensor:
      case At::kArray:
        return absl::StrCat(key_, " of ", TensorName());
    }
    return "the header";
  }

  At at_ = At::kStart;
  std::string key_;  // the last one
  absl::flat_hash_set<std::string> top_keys_;
  absl::flat_hash_set<std::string> keys_;  // of the object inside
  SafetensorsHeader header_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json) {
  const int64_t invalid = FindInvalidUtf8(json);
  if (invalid >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the header is not UTF-8 at its byte ", invalid));
  }
  if (json.empty() || json[0] != '{') return absl::InvalidArgumentError("the header does not begin with {");
  HeaderHandler handler;
  const bool parsed = nlohmann::json::sax_parse(json.begin(), json.end(), &handler);
  if (!handler.status().ok()) return handler.status();
  if (!parsed) return absl::InvalidArgumentError("the header is not JSON");
  return handler.TakeHeader();
}

}  // namespace armature
