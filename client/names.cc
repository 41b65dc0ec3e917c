#include "client/names.h"

#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr size_t kShownBytes = 40;  // of a name that is refused

// Also C1, DEL and the separators of lines and paragraphs.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  const bool c1 = first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return c1 || character == "\u2028" || character == "\u2029";
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
  for (std::string_view rest = name; !rest.empty();) {
    const size_t bytes = CharacterBytes(rest);
    if (bytes == 0) return Invalid(absl::StrFormat("%s is not UTF-8: '%s'", what, shown));
    if (IsControl(rest.substr(0, bytes))) {
      return Invalid(absl::StrFormat("%s has a control character at byte %d: '%s'", what,
                                     name.size() - rest.size(), shown));
    }
    rest.remove_prefix(bytes);
  }
  return OkStatus();
}

}  // namespace ringwood
