#include "base/tensor_type.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr size_t kShownDtypeBytes = 40;  // of one that is refused
constexpr uint64_t kMaxTensorBytes = 1ull << 63;

// Those of safetensors whose elements are whole bytes.
constexpr std::pair<const char*, uint64_t> kElements[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},     {"C64", 8},
};

}  // namespace

uint64_t BytesOfElement(const std::string& dtype) {
  for (const auto& [name, bytes] : kElements) {
    if (dtype == name) return bytes;
  }
  return 0;
}

StatusOr<uint64_t> BytesOf(const TensorType& type) {
  uint64_t bytes = BytesOfElement(type.dtype);
  if (bytes == 0) {
    return Invalid("there is no element type '" + Printable(type.dtype, kShownDtypeBytes) + "'");
  }
  if (type.shape.size() > kMaxDimensions) {
    return Invalid(
        absl::StrFormat("%d dimensions, %d are possible", type.shape.size(), kMaxDimensions));
  }
  for (const uint64_t length : type.shape) {
    if (length != 0 && bytes > kMaxTensorBytes / length) {
      return Invalid("a shape of more than 2^63 bytes");
    }
    bytes *= length;
  }
  return bytes;
}

Status CheckType(const std::string& what, const TensorType& type, uint64_t bytes) {
  if (type.dtype.empty()) {
    return type.shape.empty() ? OkStatus() : Invalid(what + " has a shape without an element type");
  }
  const StatusOr<uint64_t> own = BytesOf(type);
  if (!own.ok()) return Annotate(own.status(), what);
  if (*own == bytes) return OkStatus();
  return Invalid(absl::StrFormat("%s has %d bytes, %s has %d", what, bytes, ToString(type), *own));
}

std::string ToString(const TensorType& type) {
  if (type.dtype.empty()) return "bytes";
  std::string text = Printable(type.dtype, kShownDtypeBytes) + " [";
  for (size_t i = 0; i < type.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(type.shape[i]);
  }
  return text + "]";
}

}  // namespace ringwood
