#include "client/options/c_options.h"

#include <limits>
#include <string>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

const char* Give(const Option& option, const std::string& value, const std::string&) {
  return value.empty() && !option.needed ? nullptr : value.c_str();
}
// A field of 0 stands for the default: where that is another number, 0 is given as next to it.
double Give(const Option&, double value, double otherwise) {
  return value == 0 && otherwise != 0 ? std::numeric_limits<double>::min() : value;
}
int Give(const Option&, int value, int) { return value; }
uint64_t Give(const Option&, uint64_t value, uint64_t) { return value; }
int Give(const Option&, bool value, bool otherwise) { return value ? 1 : otherwise ? -1 : 0; }
int Give(const Option&, Resume value, Resume) {
  switch (value) {
    case Resume::kNo:
      return 0;
    case Resume::kRequired:
      return RINGWOOD_RESUME;
    case Resume::kOrStart:
      return RINGWOOD_RESUME_OR_START;
  }
  return 0;
}

// `value` has its default.
Status Take(const Option&, const char* given, std::string* value) {
  if (given != nullptr && *given != '\0') *value = given;
  return OkStatus();
}
Status Take(const Option&, double given, double* value) {
  if (given != 0) *value = given;
  return OkStatus();
}
template <typename Whole>  // 0 is a value as others are
Status Take(const Option&, Whole given, Whole* value) {
  *value = given;
  return OkStatus();
}
Status Take(const Option& option, int given, bool* value) {
  if (given < -1 || given > 1) {
    return Invalid(absl::StrFormat("%s = %d is none of 1 (on), -1 (off) and 0 (%s, the default)",
                                   option.name, given, *value ? "on" : "off"));
  }
  if (given != 0) *value = given > 0;
  return OkStatus();
}
Status Take(const Option& option, int given, Resume* value) {
  for (const Resume each : {Resume::kNo, Resume::kRequired, Resume::kOrStart}) {
    if (given != Give(option, each, Resume::kNo)) continue;
    *value = each;
    return OkStatus();
  }
  return Invalid(absl::StrFormat(
      "%s = %d is none of 0, RINGWOOD_RESUME (%d) and RINGWOOD_RESUME_OR_START (%d)", option.name,
      given, RINGWOOD_RESUME, RINGWOOD_RESUME_OR_START));
}

int TypeOf(const std::string&) { return RINGWOOD_OPTION_TEXT; }
int TypeOf(int) { return RINGWOOD_OPTION_INTEGER; }
int TypeOf(double) { return RINGWOOD_OPTION_NUMBER; }
int TypeOf(bool otherwise) {
  return otherwise ? RINGWOOD_OPTION_SWITCH_ON : RINGWOOD_OPTION_SWITCH;
}
int TypeOf(Resume) { return RINGWOOD_OPTION_RESUME; }
int TypeOf(uint64_t) { return RINGWOOD_OPTION_JOB; }

}  // namespace

StatusOr<SessionOptions> FromC(const ringwood_options& options) {
  SessionOptions result;
  for (const Option& option : OptionTable()) {
    RW_RETURN_IF_ERROR(std::visit(
        [&](const auto& place) {
          return Take(option, options.*place.field, &(result.*place.member));
        },
        option.place));
  }
  return result;
}

ringwood_options ToC(const SessionOptions& options) {
  const SessionOptions defaults;
  ringwood_options result{};
  for (const Option& option : OptionTable()) {
    std::visit(
        [&](const auto& place) {
          result.*place.field = Give(option, options.*place.member, defaults.*place.member);
        },
        option.place);
  }
  return result;
}

ringwood_option Describe(const Option& option) {
  static const SessionOptions defaults;
  static const ringwood_options fields{};
  ringwood_option described{};
  described.name = option.name;
  described.keyword = option.keyword;
  described.help = option.help;
  std::visit(
      [&](const auto& place) {
        described.type = TypeOf(defaults.*place.member);
        described.offset =
            static_cast<size_t>(reinterpret_cast<const char*>(&(fields.*place.field)) -
                                reinterpret_cast<const char*>(&fields));
      },
      option.place);
  return described;
}

}  // namespace ringwood
