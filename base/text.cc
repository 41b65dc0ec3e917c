#include "base/text.h"

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

void AppendControl(unsigned char control, std::string* out) {
  if (control == '\n') {
    *out += "\\n";
  } else if (control == '\t') {
    *out += "\\t";
  } else {
    *out += absl::StrFormat("\\x%02x", control);
  }
}

}  // namespace

size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

std::string Shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  size_t end = bytes;  // back to the beginning of a character, which has 4 bytes at most
  for (int i = 0; i < 3 && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80; ++i) {
    --end;
  }
  return std::string(text.substr(0, end)) + absl::StrFormat("… (%d bytes more)", text.size() - end);
}

std::string Printable(std::string_view text, size_t bytes) {
  const std::string shortened = Shortened(text, bytes);
  std::string out;
  out.reserve(shortened.size());
  for (std::string_view rest = shortened; !rest.empty();) {
    const size_t length = CharacterBytes(rest);
    const auto first = static_cast<unsigned char>(rest[0]);
    const bool c1 = length == 2 && first == 0xC2 && static_cast<unsigned char>(rest[1]) < 0xA0;
    if (length == 0) {
      out += '?';
    } else if (length == 1 && (first < 0x20 || first == 0x7F)) {
      AppendControl(first, &out);
    } else if (c1) {
      AppendControl(static_cast<unsigned char>(rest[1]), &out);
    } else {
      out += rest.substr(0, length);
    }
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace ringwood
