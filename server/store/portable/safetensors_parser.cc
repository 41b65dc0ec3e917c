#include "server/store/portable/safetensors_parser.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr size_t kShownBytes = 80;  // of a text that is refused

// What comes next. Objects within objects within objects are no part of the format, so a state is
// all there is to remember.
enum class Expected {
  kFile,           // the outermost {
  kNameOrEnd,      // a tensor's name, "__metadata__", or }
  kMetadata,       // the { behind "__metadata__"
  kMetadataKey,    // or }
  kMetadataValue,  // a text
  kTensor,         // the { behind a name
  kFieldOrEnd,     // "dtype", "shape", "data_offsets", or }
  kDtype,          // a text
  kShape,          // [
  kLength,         // a number, or ]
  kOffsets,        // [
  kOffset,         // a number, or ]
  kNothing,
};

class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Safetensors TakeFile() { return std::move(file_); }
  const std::string& problem() const { return problem_; }

  bool start_object(size_t) override {
    switch (expected_) {
      case Expected::kFile:
        return Now(Expected::kNameOrEnd);
      case Expected::kMetadata:
        return Now(Expected::kMetadataKey);
      case Expected::kTensor:
        return Now(Expected::kFieldOrEnd);
      default:
        return Unexpected("{");
    }
  }

  bool key(std::string& text) override {
    switch (expected_) {
      case Expected::kNameOrEnd:
        return Name(text);
      case Expected::kMetadataKey:
        metadata_key_ = text;
        return file_.metadata.contains(text) ? Twice(text) : Now(Expected::kMetadataValue);
      case Expected::kFieldOrEnd:
        return Field(text);
      default:
        return Unexpected("'" + Printable(text, kShownBytes) + "'");
    }
  }

  bool string(std::string& text) override {
    if (expected_ == Expected::kMetadataValue) {
      file_.metadata[metadata_key_] = text;
      return Now(Expected::kMetadataKey);
    }
    if (expected_ != Expected::kDtype) return Unexpected("'" + Printable(text, kShownBytes) + "'");
    tensor().type.dtype = text;
    return Now(Expected::kFieldOrEnd);
  }

  bool number_unsigned(uint64_t number) override {
    if (expected_ == Expected::kLength && tensor().type.shape.size() < kMaxDimensions) {
      tensor().type.shape.push_back(number);
      return true;
    }
    if (expected_ == Expected::kOffset && offsets_.size() < 2) {
      offsets_.push_back(number);
      return true;
    }
    return Unexpected(std::to_string(number));
  }

  bool start_array(size_t) override {
    if (expected_ == Expected::kShape) return Now(Expected::kLength);
    return expected_ == Expected::kOffsets ? Now(Expected::kOffset) : Unexpected("[");
  }

  bool end_array() override {
    if (expected_ == Expected::kLength) return Now(Expected::kFieldOrEnd);
    if (offsets_.size() != 2 || offsets_[1] < offsets_[0]) {
      return Stop("the data_offsets of '" + Shown() + "' are not a beginning and an end");
    }
    tensor().offset = offsets_[0];
    tensor().bytes = offsets_[1] - offsets_[0];
    return Now(Expected::kFieldOrEnd);
  }

  bool end_object() override {
    if (expected_ == Expected::kNameOrEnd) return Now(Expected::kNothing);
    if (expected_ == Expected::kFieldOrEnd && !(has_dtype_ && has_shape_ && has_offsets_)) {
      return Stop("'" + Shown() + "' lacks dtype, shape or data_offsets");
    }
    return Now(Expected::kNameOrEnd);
  }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(int64_t number) override { return Unexpected(std::to_string(number)); }
  bool number_float(double, const std::string& text) override {
    return Unexpected(Printable(text, kShownBytes));
  }
  bool binary(binary_t&) override { return Unexpected("bytes"); }

  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    return Stop(absl::StrFormat("its header is no JSON at byte %d", at));
  }

 private:
  bool Now(Expected expected) {
    expected_ = expected;
    return true;
  }
  bool Stop(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    return false;
  }
  bool Unexpected(const std::string& what) {
    const std::string where = file_.tensors.empty() ? "" : " at or after '" + Shown() + "'";
    return Stop("its header has an unexpected " + what + where);
  }
  bool Twice(const std::string& what) {
    return Stop("'" + Printable(what, kShownBytes) + "' is there twice");
  }

  bool Name(const std::string& name) {
    if (name == kMetadataKey) {
      return std::exchange(has_metadata_, true) ? Twice(name) : Now(Expected::kMetadata);
    }
    if (file_.tensors.size() == kMaxSafetensors) {
      return Stop(absl::StrFormat("it has more than %d tensors", kMaxSafetensors));
    }
    file_.tensors.push_back({name, {}});
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_.clear();
    return Now(Expected::kTensor);
  }

  bool Field(const std::string& field) {
    const auto first = [&](bool* has, Expected next) {
      return std::exchange(*has, true) ? Twice(field) : Now(next);
    };
    if (field == "dtype") return first(&has_dtype_, Expected::kDtype);
    if (field == "shape") return first(&has_shape_, Expected::kShape);
    if (field == "data_offsets") return first(&has_offsets_, Expected::kOffsets);
    return Unexpected("'" + Printable(field, kShownBytes) + "'");
  }

  Safetensor& tensor() { return file_.tensors.back(); }
  std::string Shown() const { return Printable(file_.tensors.back().name, kShownBytes); }

  Safetensors file_;
  Expected expected_ = Expected::kFile;
  std::string metadata_key_;
  std::vector<uint64_t> offsets_;
  bool has_metadata_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;  // of the tensor in hand
  std::string problem_;
};

}  // namespace

StatusOr<Safetensors> ParseSafetensorsJson(const std::string& header) {
  if (header.empty() || header[0] != '{') return Invalid("its header does not begin with '{'");
  HeaderReader reader;
  if (nlohmann::json::sax_parse(header, &reader)) return reader.TakeFile();
  return Invalid(reader.problem().empty() ? "its header is cut short" : reader.problem());
}

}  // namespace ringwood
