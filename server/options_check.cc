#include "server/options_check.h"

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "proto/job_token.h"
#include "server/calls/limits.h"
#include "server/calls/listen.h"
#include "server/coordinator/etcd/address.h"

namespace ringwood {
namespace {

constexpr int kMaxJobs = 256;               // each has some 20 threads
constexpr double kLeastGraceSeconds = 0.1;  // a heartbeat every 20 ms

Status CheckDeployment(const ServerOptions& options) {
  if (options.jobs == 0) {
    return options.job_limits.empty()
               ? OkStatus()
               : Invalid("--job-limits are of the jobs of a deployment: give --jobs too");
  }
  if (options.jobs < 0 || options.jobs > kMaxJobs) {
    return Invalid(absl::StrFormat("--jobs %d: 1 to %d are possible", options.jobs, kMaxJobs));
  }
  if (options.token.empty() || !JobOfToken(options.token).empty() ||
      ClaimedRoles(options.token) != kEveryRole) {
    return Denied(
        "--jobs: each job has a token of its own, made from a secret: make one with `ringwood "
        "token new` and give it with --token-file");
  }
  if (!options.update_log.empty()) {
    return Invalid(
        "--jobs: the jobs of a deployment have no --update-log: let them save more often, or give "
        "the job that needs it a server of its own");
  }
  if (!options.coord_store.empty()) {
    return Invalid(
        "--jobs: a deployment has no standby (--coord-store): have it started again when it ends, "
        "as systemd and Kubernetes do, and its jobs go on; or give the job a server of its own");
  }
  if (!options.coordinator.empty() && !options.store.empty()) {
    return Invalid(
        "--jobs: the jobs of a deployment keep their checkpoints in the store of the server that "
        "coordinates: leave out --store here, or give the job that needs several stores servers of "
        "its own");
  }
  if (options.watched) {
    return Invalid(
        "--jobs: the reducers of a deployment record no --timeline: its ranks do, with "
        "RINGWOOD_TIMELINE; or give the job a server of its own");
  }
  for (const auto& [job, limits] : options.job_limits) {
    RW_RETURN_IF_ERROR(Annotate(CheckJobName(job), "--job-limits: \"" + job + "\""));
  }
  return OkStatus();
}

}  // namespace

Status CheckServerOptions(const ServerOptions& options) {
  if (options.servers < 0 || options.servers > static_cast<int>(kMaxServers)) {
    return Invalid(
        absl::StrFormat("--servers %d: 0 to %d are possible", options.servers, kMaxServers));
  }
  if (!(options.failure_timeout_seconds >= 0.5 && options.failure_timeout_seconds <= 3600)) {
    return Invalid(absl::StrFormat("--failure-timeout %g: 0.5 to 3600 seconds are possible",
                                   options.failure_timeout_seconds));
  }
  if (!(options.join_timeout_seconds > 0)) {
    return Invalid("--join-timeout must be longer than 0 seconds");
  }
  if (!(options.stall_timeout_seconds >= 0)) {
    return Invalid("--stall-timeout must be 0 seconds or longer");
  }
  const int most = options.max_world > 0 ? options.max_world : static_cast<int>(kMaxWorld);
  if (options.min_world < 1 || options.min_world > most) {
    return Invalid(
        absl::StrFormat("--min-np %d: 1 to %d (--max-np) are possible", options.min_world, most));
  }
  const double grace = options.straggler_grace_seconds;
  if (!(grace == 0 || (grace >= kLeastGraceSeconds && grace <= 3600))) {
    return Invalid(absl::StrFormat("--straggler-grace %g: 0, or %g to 3600 seconds are possible",
                                   grace, kLeastGraceSeconds));
  }
  if (grace > 0 && !options.elastic) {
    return Invalid("--straggler-grace: only an --elastic job goes on without a rank that is late");
  }
  RW_RETURN_IF_ERROR(CheckDeployment(options));
  if (options.http.empty() && !options.http_tls.empty()) {
    return Invalid("--http-tls is of a page that is not served: give its address with --http");
  }
  if (!options.http.empty() && !options.coordinator.empty()) {
    return Invalid("--http belongs to the server that coordinates, which knows all members");
  }
  if (options.coord_store.empty()) {
    return options.etcd_tls.empty() ? OkStatus()
                                    : Invalid("--etcd-tls belongs to --coord-store etcds://…");
  }
  if (!options.coordinator.empty()) {
    return Invalid(
        "--coord-store belongs to a server that coordinates, not to one with --coordinator");
  }
  RW_ASSIGN_OR_RETURN(const EtcdAddress etcd,
                      ParseEtcdAddress(options.coord_store, options.etcd_tls));
  if (etcd.credentials != nullptr || etcd.on_loopback() || options.trusted_fabric) {
    return OkStatus();
  }
  return Denied("--coord-store " + options.coord_store +
                " is spoken to without TLS: write etcds:// and give the folder with etcd's ca.pem "
                "with --etcd-tls, declare its network private with --trusted-fabric "
                "--network-interface IF, or reach etcd on 127.0.0.1");
}

StatusOr<std::string> ChooseControl(const ServerOptions& options) {
  return ChooseListen({.listen = options.listen,
                       .insecure = options.insecure,
                       .tls = options.credentials != nullptr,
                       .trusted_fabric = options.trusted_fabric,
                       .network_interface = options.network_interface});
}

StatusOr<std::string> ChooseHttp(const ServerOptions& options) {
  RW_ASSIGN_OR_RETURN(const std::string address,
                      ChooseListen({.listen = options.http,
                                    .page = true,
                                    .insecure = options.insecure || options.credentials != nullptr,
                                    .tls = !options.http_tls.empty(),
                                    .trusted_fabric = options.trusted_fabric,
                                    .network_interface = options.network_interface}));
  if (IsLoopbackHost(HostOf(address)) || !options.token.empty()) return address;
  return Denied("--http " + options.http +
                " can be reached from other hosts and the job has no token: give one with "
                "--token-file, or listen on 127.0.0.1");
}

}  // namespace ringwood
