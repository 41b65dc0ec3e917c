// Makes untrusted text safe for a log, a terminal or a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringwood {

// Bytes of the UTF-8 character that begins the text, which is not empty; 0: it is not UTF-8 (RFC
// 3629: no longer form than needed, no surrogate, nothing above U+10FFFF).
size_t CharacterBytes(std::string_view text);

// At most `bytes` of the text, cut between two UTF-8 characters; a cut text ends with "… (N bytes
// more)", which is not counted.
std::string Shortened(std::string_view text, size_t bytes);

// Escapes what a terminal or a log would interpret: control characters (also DEL and C1)
// become \n, \t, \x1b …, bytes that are not UTF-8 become "?". Shortened to `bytes` first.
std::string Printable(std::string_view text, size_t bytes);

}  // namespace ringwood
