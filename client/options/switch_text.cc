#include "client/options/switch_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace ringwood {
namespace {

constexpr const char* kOn[] = {"true", "on", "yes", "enable", "t", "y", "+"};
constexpr const char* kOff[] = {"false", "off", "no", "disable", "f", "n", "-"};

}  // namespace

std::optional<bool> ReadSwitch(const std::string& text) {
  const std::string word = absl::AsciiStrToLower(text);
  const auto is_word = [&](const char* each) { return word == each; };
  if (std::any_of(std::begin(kOn), std::end(kOn), is_word)) return true;
  if (std::any_of(std::begin(kOff), std::end(kOff), is_word)) return false;
  int64_t number = 0;
  if (absl::SimpleAtoi(word, &number)) return number > 0;
  return std::nullopt;
}

}  // namespace ringwood
