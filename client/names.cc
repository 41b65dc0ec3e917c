#include "client/names.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kShownBytes = 40;  // of a name that is refused

// The character that begins at `at`, and its bytes in `bytes`; negative: it is not UTF-8
// (surrogates and encodings that are longer than needed are not).
int32_t CharacterAt(const std::string& text, size_t at, size_t* bytes) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const uint32_t first = byte(0);
  *bytes = first < 0x80 ? 1 : (first >> 5) == 6 ? 2 : (first >> 4) == 14 ? 3 : 4;
  if (*bytes == 1) return static_cast<int32_t>(first);
  if (*bytes == 4 && (first >> 3) != 30) return -1;
  uint32_t character = first & (0x7f >> *bytes);
  for (size_t i = 1; i < *bytes; ++i) {
    if ((byte(i) >> 6) != 2) return -1;
    character = character << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xd800 && character <= 0xdfff;
  if (character < kLeast[*bytes] || surrogate || character > 0x10ffff) return -1;
  return static_cast<int32_t>(character);
}

}  // namespace

Status CheckName(const char* what, const std::string& name) {
  if (name.empty()) return Invalid(absl::StrFormat("%s is empty", what));
  const std::string shown =
      absl::CHexEscape(name.substr(0, kShownBytes)) + (name.size() > kShownBytes ? "..." : "");
  if (name.size() > kMaxNameBytes) {
    return Invalid(absl::StrFormat("%s has %d bytes, %d are possible: '%s'", what, name.size(),
                                   kMaxNameBytes, shown));
  }
  size_t bytes = 0;
  for (size_t at = 0; at < name.size(); at += bytes) {
    const int32_t character = CharacterAt(name, at, &bytes);
    if (character < 0) return Invalid(absl::StrFormat("%s is not UTF-8: '%s'", what, shown));
    const bool control = character < 0x20 || (character >= 0x7f && character < 0xa0) ||
                         character == 0x2028 || character == 0x2029;
    if (control) {
      return Invalid(
          absl::StrFormat("%s has a control character at byte %d: '%s'", what, at, shown));
    }
  }
  return OkStatus();
}

}  // namespace ringwood
