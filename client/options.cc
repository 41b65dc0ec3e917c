#include "client/options.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"
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

StatusOr<int> Integer(const Found& found) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(found.value, &end, 10);
  if (*end != '\0' || errno != 0 || value < 0 || value > 1'000'000) {
    return Invalid(absl::StrFormat("%s='%s' is not a whole number from 0 to 1000000", found.name,
                                   found.value));
  }
  return static_cast<int>(value);
}

StatusOr<double> Number(const Found& found) {
  char* end = nullptr;
  const double value = std::strtod(found.value, &end);
  if (*end != '\0' || !std::isfinite(value)) {
    return Invalid(absl::StrFormat("%s='%s' is not a number", found.name, found.value));
  }
  return value;
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

bool IsLoopbackAddress(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || host.rfind("127.", 0) == 0;
}

}  // namespace

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
  options.resume = Flag(environment, "RINGWOOD_RESUME");
  options.planner = TextOf(environment, "RINGWOOD_PLANNER", options.planner);
  options.wire = TextOf(environment, "RINGWOOD_WIRE", options.wire);
  options.sparse_codec = TextOf(environment, "RINGWOOD_SPARSE_CODEC", options.sparse_codec);
  options.sparse_merge = TextOf(environment, "RINGWOOD_SPARSE_MERGE", options.sparse_merge);
  options.sparse_method = TextOf(environment, "RINGWOOD_SPARSE_METHOD", options.sparse_method);
  if (const Found found = Find(environment, {"RINGWOOD_SPARSE_CHUNK"}); found.value != nullptr) {
    RW_ASSIGN_OR_RETURN(options.sparse_chunk, Integer(found));
  }
  if (const Found found = Find(environment, {"RINGWOOD_WARMUP_STEPS"}); found.value != nullptr) {
    RW_ASSIGN_OR_RETURN(options.warmup_steps, Integer(found));
  }
  options.log_level = TextOf(environment, "RINGWOOD_LOG_LEVEL", options.log_level);
  options.timeline = TextOf(environment, "RINGWOOD_TIMELINE", "");
  options.flight_record = TextOf(environment, "RINGWOOD_FLIGHT_RECORD", "");
  options.adapt = Flag(environment, "RINGWOOD_ADAPT");
  options.freeze_plan = TextOf(environment, "RINGWOOD_FREEZE_PLAN", "");
  options.save_plan = TextOf(environment, "RINGWOOD_SAVE_PLAN", "");
  options.profile = TextOf(environment, "RINGWOOD_PROFILE", "");
  if (const Found found = Find(environment, {"RINGWOOD_MOMENTUM"}); found.value != nullptr) {
    RW_ASSIGN_OR_RETURN(options.momentum, Number(found));
  }
  if (const Found found = Find(environment, {"RINGWOOD_CLIP_NORM"}); found.value != nullptr) {
    RW_ASSIGN_OR_RETURN(options.clip_norm, Number(found));
  }
  options.momentum_masking = Flag(environment, "RINGWOOD_MOMENTUM_MASKING", true);
  if (const Found found = Find(environment, {"RINGWOOD_SPARSE_KEEP"}); found.value != nullptr) {
    RW_ASSIGN_OR_RETURN(options.sparse_keep, Number(found));
  }
  if (const Found found = Find(environment, {"RINGWOOD_JOIN_TIMEOUT"}); found.value != nullptr) {
    RW_ASSIGN_OR_RETURN(options.join_timeout_seconds, Number(found));
  }
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
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    return Invalid(absl::StrFormat("momentum %g is not in [0, 1)", options.momentum));
  }
  RW_RETURN_IF_ERROR(ParseCodec(options.sparse_codec).status());
  RW_RETURN_IF_ERROR(ParseMerge(options.sparse_merge).status());
  if (!(options.sparse_keep > 0) || !std::isfinite(options.sparse_keep)) {
    return Invalid(absl::StrFormat(
        "a sparse result of %g times the entries that are sent: use a number above 0",
        options.sparse_keep));
  }
  if (!(options.clip_norm >= 0) || !std::isfinite(options.clip_norm)) {
    return Invalid(absl::StrFormat("clip norm %g is not a norm", options.clip_norm));
  }
  if (options.sparse_chunk < 0 || (options.sparse_chunk > 0 && options.sparse_chunk < 64)) {
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
  if (!(options.join_timeout_seconds > 0)) {
    return Invalid(
        absl::StrFormat("join timeout %g s is not positive", options.join_timeout_seconds));
  }
  if (options.adapt && !options.freeze_plan.empty()) {
    return Invalid("a frozen plan cannot adapt: give one of --adapt and --freeze-plan");
  }
  if (options.warmup_steps < 0) {
    return Invalid(absl::StrFormat("a density warm-up of %d steps", options.warmup_steps));
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
