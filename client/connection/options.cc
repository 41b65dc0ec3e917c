#include "client/connection/options.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <variant>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "plan/strategy/planner.h"
#include "sparse/codec.h"
#include "sparse/group.h"
#include "sparse/selector.h"
#include "transport/open_fabric.h"

namespace ringwood {
namespace {

// The first of `names` that is set and not empty.
struct Found {
  const char* name = nullptr;
  const char* value = nullptr;
};
Found Find(const EnvironmentLookup& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

constexpr int kLargestInteger = 1'000'000'000;  // no variable of ours means more

StatusOr<int> Integer(const Found& found) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(found.value, &end, 10);
  if (*end != '\0' || errno != 0 || value < 0 || value > kLargestInteger) {
    return Invalid(absl::StrFormat("%s='%s' is not a whole number from 0 to %d", found.name,
                                   found.value, kLargestInteger));
  }
  return static_cast<int>(value);
}

StatusOr<double> Number(const Found& found) {
  char* end = nullptr;
  const double value = std::strtod(found.value, &end);
  if (*end != '\0' || end == found.value) {
    return Invalid(absl::StrFormat("%s='%s' is not a number", found.name, found.value));
  }
  return value;
}

// Every number that a user gives, and what it may be: NaN is in no range.
struct NumberRange {
  const char* name;
  double least, most;  // both are allowed
  const char* words;
  // Where it is among the options of a session, and the variable that gives it; none for what
  // belongs to a tensor or a step.
  std::variant<std::monostate, int SessionOptions::*, double SessionOptions::*> field = {};
  const char* variable = nullptr;
};

constexpr double kTiny = std::numeric_limits<double>::min();
constexpr double kBelowOne = 1 - std::numeric_limits<float>::epsilon();
constexpr double kLargestFloat = std::numeric_limits<float>::max();
const NumberRange kNumbers[] = {
    {"momentum", 0, kBelowOne, "from 0 to below 1", &SessionOptions::momentum, "RINGWOOD_MOMENTUM"},
    {"clip_norm", 0, kLargestFloat, "of 0 (none) or more", &SessionOptions::clip_norm,
     "RINGWOOD_CLIP_NORM"},
    {"sparse_keep", kTiny, 1e6, "above 0, at most 1000000", &SessionOptions::sparse_keep,
     "RINGWOOD_SPARSE_KEEP"},
    {"sparse_chunk", 0, 1e9, "from 0 to 1000000000", &SessionOptions::sparse_chunk,
     "RINGWOOD_SPARSE_CHUNK"},
    {"warmup_steps", 0, 1e9, "from 0 to 1000000000", &SessionOptions::warmup_steps,
     "RINGWOOD_WARMUP_STEPS"},
    {"join_timeout_seconds", kTiny, 7 * 86400, "above 0, at most a week",
     &SessionOptions::join_timeout_seconds, "RINGWOOD_JOIN_TIMEOUT"},
    {"density", kTiny, 1, "above 0, at most 1"},
    {"weight", 0, kLargestFloat, "of samples, 0 or more"}};

Status CheckIn(const NumberRange& range, double value, const std::string& name) {
  if (value >= range.least && value <= range.most) return OkStatus();
  return Invalid(absl::StrFormat("%s = %g is not a number %s", name, value, range.words));
}

// What the variable of `range` says, where it has one that is set.
Status ReadNumber(const EnvironmentLookup& environment, const NumberRange& range,
                  SessionOptions* options) {
  if (range.variable == nullptr) return OkStatus();
  const Found found = Find(environment, {range.variable});
  if (found.value == nullptr) return OkStatus();
  double value = 0;
  if (const auto* whole = std::get_if<int SessionOptions::*>(&range.field)) {
    RW_ASSIGN_OR_RETURN(const int given, Integer(found));
    value = options->** whole = given;
  } else {
    RW_ASSIGN_OR_RETURN(value, Number(found));
    options->*std::get<double SessionOptions::*>(range.field) = value;
  }
  return CheckIn(range, value, range.variable);
}

std::string TextOf(const EnvironmentLookup& environment, const char* name,
                   const std::string& otherwise) {
  const Found found = Find(environment, {name});
  return found.value != nullptr ? found.value : otherwise;
}

bool Flag(const EnvironmentLookup& environment, const char* name, bool otherwise = false) {
  const std::string value = TextOf(environment, name, otherwise ? "1" : "0");
  return value != "0" && value != "false" && value != "no";
}

Status CheckNumbers(const SessionOptions& options) {
  for (const NumberRange& range : kNumbers) {
    if (const auto* whole = std::get_if<int SessionOptions::*>(&range.field)) {
      RW_RETURN_IF_ERROR(CheckIn(range, options.**whole, range.name));
    } else if (const auto* number = std::get_if<double SessionOptions::*>(&range.field)) {
      RW_RETURN_IF_ERROR(CheckIn(range, options.**number, range.name));
    }
  }
  return OkStatus();
}

bool IsLoopbackAddress(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || host.rfind("127.", 0) == 0;
}

}  // namespace

Status CheckRange(const char* name, double value) {
  for (const NumberRange& range : kNumbers) {
    if (std::strcmp(range.name, name) == 0) return CheckIn(range, value, name);
  }
  return Internal(absl::StrFormat("there is no range for %s", name));
}

StatusOr<uint64_t> ParseJob(const std::string& text) {
  uint64_t job = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, job, 16);
  if (error == std::errc() && stop == end) return job;
  return Invalid("'" + text +
                 "' is not the name of a job: up to 16 hexadecimal digits, as "
                 "`ringwood checkpoint list` shows them");
}

StatusOr<SessionOptions> OptionsFromEnvironment(const EnvironmentLookup& environment) {
  SessionOptions options;
  const Found rank = Find(environment, {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"});
  const Found world = Find(environment, {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"});
  if (rank.value == nullptr || world.value == nullptr) {
    return Invalid(absl::StrFormat(
        "%s is not set: start the program with `ringwood run`, or set RANK, WORLD_SIZE and "
        "RINGWOOD_COORDINATOR",
        rank.value == nullptr ? "RANK" : "WORLD_SIZE"));
  }
  RW_ASSIGN_OR_RETURN(options.rank, Integer(rank));
  RW_ASSIGN_OR_RETURN(options.world, Integer(world));
  options.coordinator = TextOf(environment, "RINGWOOD_COORDINATOR", "");
  options.host = TextOf(environment, "SLURMD_NODENAME", options.host);
  options.host = TextOf(environment, "RINGWOOD_HOST", options.host);
  options.network_interface = TextOf(environment, "RINGWOOD_NETWORK_INTERFACE", "");
  options.trusted_fabric = Flag(environment, "RINGWOOD_TRUSTED_FABRIC");
  options.transport = TextOf(environment, "RINGWOOD_TRANSPORT", options.transport);
  options.port_range = TextOf(environment, "RINGWOOD_PORT_RANGE", "");
  options.token = TextOf(environment, "RINGWOOD_TOKEN", "");
  options.or_start = TextOf(environment, "RINGWOOD_RESUME", "") == "auto";
  options.resume = options.or_start || Flag(environment, "RINGWOOD_RESUME");
  RW_ASSIGN_OR_RETURN(options.job, ParseJob(TextOf(environment, "RINGWOOD_JOB", "0")));
  options.planner = TextOf(environment, "RINGWOOD_PLANNER", options.planner);
  options.wire = TextOf(environment, "RINGWOOD_WIRE", options.wire);
  options.sparse_codec = TextOf(environment, "RINGWOOD_SPARSE_CODEC", options.sparse_codec);
  options.sparse_merge = TextOf(environment, "RINGWOOD_SPARSE_MERGE", options.sparse_merge);
  options.sparse_method = TextOf(environment, "RINGWOOD_SPARSE_METHOD", options.sparse_method);
  options.log_level = TextOf(environment, "RINGWOOD_LOG_LEVEL", options.log_level);
  options.timeline = TextOf(environment, "RINGWOOD_TIMELINE", "");
  options.flight_record = TextOf(environment, "RINGWOOD_FLIGHT_RECORD", "");
  options.adapt = Flag(environment, "RINGWOOD_ADAPT");
  options.freeze_plan = TextOf(environment, "RINGWOOD_FREEZE_PLAN", "");
  options.save_plan = TextOf(environment, "RINGWOOD_SAVE_PLAN", "");
  options.profile = TextOf(environment, "RINGWOOD_PROFILE", "");
  options.momentum_masking = Flag(environment, "RINGWOOD_MOMENTUM_MASKING", true);
  for (const NumberRange& range : kNumbers)
    RW_RETURN_IF_ERROR(ReadNumber(environment, range, &options));
  return options;
}

std::vector<std::pair<std::string, std::string>> Agreed(const SessionOptions& options) {
  return {{"planner", options.planner},
          {"wire", options.wire},
          {"sparse codec", options.sparse_codec},
          {"sparse merge", options.sparse_merge},
          {"sparse method", options.sparse_method},
          {"sparse chunk", absl::StrFormat("%d", options.sparse_chunk)},
          {"sparse keep", absl::StrFormat("%g", options.sparse_keep)},
          {"momentum masking", options.momentum_masking ? "on" : "off"},
          {"warm-up steps", absl::StrFormat("%d", options.warmup_steps)}};
}

Status Check(const SessionOptions& options) {
  if (options.coordinator.rfind(':') == std::string::npos) {
    return Invalid(absl::StrFormat(
        "the coordinator '%s' is not HOST:PORT: set RINGWOOD_COORDINATOR or start the program with "
        "`ringwood run`",
        options.coordinator));
  }
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world) {
    return Invalid(absl::StrFormat("rank %d of a world of %d: ranks go from 0 to world - 1",
                                   options.rank, options.world));
  }
  RW_RETURN_IF_ERROR(CheckNumbers(options));
  RW_RETURN_IF_ERROR(ParseLogLevel(options.log_level).status());
  RW_RETURN_IF_ERROR(CheckRunnable(options.planner));
  RW_RETURN_IF_ERROR(ParseCodec(options.sparse_codec).status());
  RW_RETURN_IF_ERROR(ParseMerge(options.sparse_merge).status());
  if (options.sparse_chunk > 0 && options.sparse_chunk < 64) {
    return Invalid(absl::StrFormat("sparse chunks of %d elements: use 64 or more, or 0 for none",
                                   options.sparse_chunk));
  }
  RW_ASSIGN_OR_RETURN(const Method method, ParseMethod(options.sparse_method));
  if (options.sparse_chunk > 0 && method != Method::kExact) {
    return Invalid("sparse chunks have no threshold of the whole: they go with the method exact");
  }
  RW_RETURN_IF_ERROR(CheckTransport(options.transport));
  RW_RETURN_IF_ERROR(ParsePortRange(options.port_range).status());
  if (options.wire != "fp32" && options.wire != "bf16") {
    return Invalid("the wire format '" + options.wire + "' is neither fp32 nor bf16");
  }
  if (options.adapt && !options.freeze_plan.empty()) {
    return Invalid("a frozen plan cannot adapt: give one of --adapt and --freeze-plan");
  }
  if (options.warmup_steps > 0 && !options.freeze_plan.empty()) {
    return Invalid(
        "a frozen plan cannot change its densities: give one of --density-warmup and "
        "--freeze-plan");
  }
  if (!options.trusted_fabric && !IsLoopbackAddress(options.coordinator)) {
    return Denied(absl::StrFormat(
        "the coordinator %s is not on loopback and the control plane is not encrypted: declare the "
        "network private with --trusted-fabric (RINGWOOD_TRUSTED_FABRIC=1) or stay on loopback",
        options.coordinator));
  }
  return OkStatus();
}

}  // namespace ringwood
