#include "launch/served_command.h"

#include "absl/strings/str_format.h"

namespace ringwood {

Environment ServedEnvironment(Environment own, const RankContext& context,
                              const std::string& server_host) {
  const auto set = [&own](const char* name, const std::string& value) {
    if (!value.empty()) own[name] = value;
  };
  set("RINGWOOD_COORDINATOR", context.coordinator);
  set("RINGWOOD_TOKEN", context.token);
  set("RINGWOOD_NETWORK_INTERFACE", context.network_interface);
  set("RINGWOOD_TRUSTED_FABRIC", context.trusted_fabric ? "1" : "");
  set("RINGWOOD_TRANSPORT", context.transport == "auto" ? "" : context.transport);
  set("RINGWOOD_PORT_RANGE", context.port_range);
  set("RINGWOOD_JOIN_TIMEOUT", absl::StrFormat("%g", context.join_timeout_seconds));
  set("RINGWOOD_SERVER_HOST", server_host);
  return own;
}

StatusOr<std::unique_ptr<Process>> StartServed(const std::vector<std::string>& command,
                                               const Environment& environment, mode_t file_mask) {
  ProcessOptions options;
  options.command = command;
  options.environment = environment;
  options.file_mask = static_cast<int>(file_mask);
  options.inherit_output = true;
  options.inherit_error = true;
  options.die_with_parent = true;
  return Process::Spawn(options);
}

}  // namespace ringwood
