// What an option may be, and which ones go together.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/net/endpoint.h"
#include "client/options/option_table.h"
#include "sparse/selector.h"

namespace ringwood {
namespace {

Status CheckIn(const NumberRange& range, double value, const std::string& name) {
  if (value >= range.least && value <= range.most) return OkStatus();
  return Invalid(absl::StrFormat("%s%s%g is not a number %s", name, name.empty() ? "" : " = ",
                                 value, range.words));
}

// Numbers that belong to a tensor or a step, not to a session.
struct OtherNumber {
  const char* name;
  NumberRange range;
};
constexpr OtherNumber kOtherNumbers[] = {
    {"density", {std::numeric_limits<double>::min(), 1, "above 0, at most 1"}},
    {"weight", {0, std::numeric_limits<float>::max(), "of samples, 0 or more"}}};

// "HOST:PORT", or several of them, all on this machine.
bool AreLoopbackAddresses(const std::string& addresses) {
  const std::vector<std::string> all = absl::StrSplit(addresses, ',');
  return std::all_of(all.begin(), all.end(),
                     [](const std::string& address) { return IsLoopbackHost(HostOf(address)); });
}

// What single options do not show.
Status CheckTogether(const SessionOptions& options) {
  if (options.sparse_chunk > 0 && options.sparse_chunk < 64) {
    return Invalid(absl::StrFormat("sparse chunks of %d elements: use 64 or more, or 0 for none",
                                   options.sparse_chunk));
  }
  RW_ASSIGN_OR_RETURN(const Method method, ParseMethod(options.sparse_method));
  if (options.sparse_chunk > 0 && method != Method::kExact) {
    return Invalid("sparse chunks have no threshold of the whole: they go with the method exact");
  }
  if (options.adapt && !options.freeze_plan.empty()) {
    return Invalid("a frozen plan cannot adapt: give one of --adapt and --freeze-plan");
  }
  if (options.warmup_steps > 0 && !options.freeze_plan.empty()) {
    return Invalid(
        "a frozen plan cannot change its densities: give one of --density-warmup and "
        "--freeze-plan");
  }
  return OkStatus();
}

}  // namespace

Status CheckOption(const Option& option, const std::string& name, const SessionOptions& options) {
  return std::visit(
      [&](const auto& place) -> Status {
        const auto& value = options.*place.member;
        if constexpr (std::is_same_v<decltype(value), const std::string&>) {
          return option.check != nullptr ? option.check(value) : OkStatus();
        } else if constexpr (!std::is_same_v<decltype(value), const Resume&>) {
          if (option.range.words != nullptr) return CheckIn(option.range, value, name);
        }
        return OkStatus();
      },
      option.place);
}

Status CheckRange(const char* name, double value) {
  for (const OtherNumber& number : kOtherNumbers) {
    if (std::strcmp(number.name, name) == 0) return CheckIn(number.range, value, name);
  }
  for (const Option& option : OptionTable()) {
    if (option.range.words == nullptr || std::strcmp(option.name, name) != 0) continue;
    return CheckIn(option.range, value, name);
  }
  return Internal(absl::StrFormat("there is no range for %s", name));
}

Status CheckValues(const SessionOptions& options) {
  for (const Option& option : OptionTable()) {
    RW_RETURN_IF_ERROR(CheckOption(option, option.name, options));
  }
  return CheckTogether(options);
}

Status Check(const SessionOptions& options) {
  if (options.coordinator.empty()) {
    return Invalid(
        "RINGWOOD_COORDINATOR is not set: start the program with `ringwood run`, or set it to the "
        "HOST:PORT of a `ringwood server`");
  }
  if (const Status named = CheckEndpoints(options.coordinator); !named.ok()) {
    return Invalid("the coordinator " + Message(named) +
                   ": set RINGWOOD_COORDINATOR or start the program with `ringwood run`");
  }
  // A rank beyond the world is an elastic job's spare; the coordinator of a fixed one refuses it.
  if (options.world < 1 || options.rank < 0) {
    return Invalid(absl::StrFormat("rank %d of a world of %d: ranks go from 0 to world - 1",
                                   options.rank, options.world));
  }
  RW_RETURN_IF_ERROR(CheckValues(options));
  const bool open = !options.trusted_fabric && options.identity.empty();
  if (open && !AreLoopbackAddresses(options.coordinator)) {
    return Denied(absl::StrFormat(
        "the coordinator %s is not on loopback and this rank has no certificate to speak TLS with: "
        "give it one (RINGWOOD_IDENTITY; `ringwood run` does), declare the network private with "
        "--trusted-fabric (RINGWOOD_TRUSTED_FABRIC=1), or stay on loopback",
        options.coordinator));
  }
  return OkStatus();
}

}  // namespace ringwood
