// Options as text: how a variable or a flag gives one, and how it is printed.
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "client/options/option_table.h"
#include "client/options/switch_text.h"

namespace ringwood {
namespace {

constexpr int kLargestInteger = 1'000'000'000;  // no option of ours means more

// The text of one option, and what it is read for.
struct Given {
  const Option& option;
  const std::string& source;
  const std::string& text;

  Status Not(const std::string& what) const {
    return Invalid(
        absl::StrFormat("%s%s'%s' is not %s", source, source.empty() ? "" : "=", text, what));
  }
};

Status ReadValue(const Given& given, std::string* value) {
  *value = given.text;
  return OkStatus();
}

Status ReadValue(const Given& given, int* value) {
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(given.text.c_str(), &end, 10);
  if (*end != '\0' || errno != 0 || number < 0 || number > kLargestInteger) {
    return given.Not(absl::StrFormat("a whole number from 0 to %d", kLargestInteger));
  }
  *value = static_cast<int>(number);
  return OkStatus();
}

Status ReadValue(const Given& given, double* value) {
  // In no locale: that is the trainer's, and may write 0,5.
  return absl::SimpleAtod(given.text, value) ? OkStatus() : given.Not("a number");
}

Status ReadValue(const Given& given, bool* value) {
  const std::optional<bool> on = ReadSwitch(given.text);
  if (!on.has_value()) return given.Not("1 or 0");
  *value = *on;
  return OkStatus();
}

Status ReadValue(const Given& given, uint64_t* job) {
  RW_ASSIGN_OR_RETURN(*job, ParseJob(given.text));
  return OkStatus();
}

Status ReadValue(const Given& given, Resume* value) {
  const std::optional<bool> on = ReadSwitch(given.text);
  if (!on.has_value() && given.text != "auto") return given.Not("1, auto or 0");
  *value = !on.has_value() ? Resume::kOrStart : *on ? Resume::kRequired : Resume::kNo;
  return OkStatus();
}

std::string ValueText(const std::string& value) { return value; }
std::string ValueText(int value) { return absl::StrFormat("%d", value); }
std::string ValueText(double value) { return absl::StrFormat("%g", value); }
std::string ValueText(bool value) { return value ? "on" : "off"; }
std::string ValueText(uint64_t job) { return job == 0 ? "" : absl::StrFormat("%016x", job); }
std::string ValueText(Resume value) {
  return value == Resume::kOrStart ? "auto" : value == Resume::kRequired ? "1" : "";
}

}  // namespace

StatusOr<uint64_t> ParseJob(const std::string& text) {
  uint64_t job = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, job, 16);
  if (error == std::errc() && stop == end) return job;
  return Invalid("'" + text +
                 "' is not the name of a job: up to 16 hexadecimal digits, as "
                 "`ringwood checkpoint list` shows them");
}

Status ReadOption(const Option& option, const std::string& source, const std::string& text,
                  SessionOptions* options) {
  const Given given{option, source, text};
  return std::visit([&](const auto& place) { return ReadValue(given, &(options->*place.member)); },
                    option.place);
}

std::string OptionText(const Option& option, const SessionOptions& options) {
  return std::visit([&](const auto& place) { return ValueText(options.*place.member); },
                    option.place);
}

std::vector<std::pair<std::string, std::string>> Agreed(const SessionOptions& options) {
  std::vector<std::pair<std::string, std::string>> agreed;
  for (const Option& option : OptionTable()) {
    if (option.agreed != nullptr) agreed.emplace_back(option.agreed, OptionText(option, options));
  }
  return agreed;
}

}  // namespace ringwood
