#include "cli/flags/flag_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

bool AreDigits(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

}  // namespace

std::string NumberProblem(const std::string& text, double least, double most, bool above) {
  double value = 0;
  const bool hexadecimal = text.find_first_of("xX") != std::string::npos;
  if (hexadecimal || !absl::SimpleAtod(text, &value)) return "\"" + text + "\" is not a number";
  if (!std::isfinite(value)) return "\"" + text + "\" is not a finite number";
  if (std::isfinite(most) && (value < least || value > most)) {
    return absl::StrFormat("%s is not within %.15g to %.15g", text, least, most);
  }
  if (above && value <= least) return absl::StrFormat("%s is not above %.15g", text, least);
  if (value < least) return absl::StrFormat("%s is below %.15g", text, least);
  return "";
}

template <typename T>
std::string ReadWhole(std::string* text) {
  T value = 0;
  if (absl::SimpleAtoi(*text, &value)) {
    *text = absl::StrCat(value);
    return "";
  }
  if (!AreDigits(*text)) return "\"" + *text + "\" is not a whole number";
  if (std::is_unsigned_v<T> && text->front() == '-') return *text + " is below 0";
  return absl::StrCat(*text, " is not within ", std::numeric_limits<T>::min(), " to ",
                      std::numeric_limits<T>::max());
}

template std::string ReadWhole<int>(std::string* text);
template std::string ReadWhole<uint64_t>(std::string* text);

}  // namespace ringwood
