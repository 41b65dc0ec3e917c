// Text of others on its way into a log, a terminal or a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringwood {

// At most `bytes` of it, cut between two characters of UTF-8; what was cut ends with "… (N bytes
// more)", which is not counted.
std::string Shortened(std::string_view text, size_t bytes);

// Without what a terminal or a line of a log would obey: control characters (also DEL and C1)
// become \n, \t, \x1b …, bytes that are not UTF-8 become "?". Shortened to `bytes` first.
std::string Printable(std::string_view text, size_t bytes);

}  // namespace ringwood
