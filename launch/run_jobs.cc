#include "launch/run_jobs.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "launch/network.h"
#include "timeline/name.h"

namespace ringwood {
namespace {

constexpr double kLeastSilenceSeconds = 15;  // a launcher on a busy machine is not gone

// A server waits for its store, in which the one before may still be in its last write, and gives
// up before its launcher does.
void AddStoreFlags(const RunOptions& options, std::vector<std::string>* command) {
  command->push_back("--store=" + options.store);
  if (options.context.restart > 0) {
    command->push_back(absl::StrFormat("--store-patience=%g", 0.8 * options.join_timeout_seconds));
  }
}

// What only the first server is told.
void AddCoordinatorFlags(const RunOptions& options, bool again, std::vector<std::string>* command) {
  if (!options.update_log.empty()) command->push_back("--update-log=" + options.update_log);
  if (!options.http.empty()) command->push_back("--http=" + options.http);
  if (!options.http_tls.empty()) command->push_back("--http-tls=" + options.http_tls);
  command->push_back(absl::StrFormat("--keep-checkpoints=%d", options.keep_checkpoints));
  command->push_back(absl::StrFormat("--keep-every=%d", options.keep_every));
  if (!options.elastic) return;
  const ElasticRun& elastic = *options.elastic;
  command->push_back("--elastic");
  command->push_back("--min-np=" + std::to_string(elastic.min_ranks));
  if (elastic.max_ranks > 0) command->push_back("--max-np=" + std::to_string(elastic.max_ranks));
  if (elastic.straggler_grace_seconds > 0) {
    command->push_back(absl::StrFormat("--straggler-grace=%g", elastic.straggler_grace_seconds));
  }
  // Of the epoch that a store has on record nothing runs any more when an attempt begins.
  const double grace = again ? options.coordinator_grace_seconds : 0;
  if (grace >= 0) command->push_back(absl::StrFormat("--reattach-grace=%g", grace));
}

std::vector<std::string> ServerCommand(const RunOptions& options, int index,
                                       const std::string& coordinator) {
  const RankContext& context = options.context;
  const std::string& host = HostOfServer(options, index);
  const bool lone = index == 0 && options.lone_coordinator;
  const bool again = index == 0 && !coordinator.empty();
  const int reducer = NumberOfServer(options, index);
  std::vector<std::string> command = {
      host == "localhost" ? options.reach.program : options.reach.remote_program,
      "server",
      "--listen=" + (again ? coordinator : ":0"),
      "--host=" + host,
      "--servers=" + std::to_string(options.reducers()),
      lone ? "--no-reducer" : "--reducer-index=" + std::to_string(reducer),
      absl::StrFormat("--failure-timeout=%g", options.failure_timeout_seconds),
      absl::StrFormat("--join-timeout=%g", options.join_timeout_seconds),
      absl::StrFormat("--stall-timeout=%g", options.stall_timeout_seconds),
      absl::StrFormat("--coordinator-grace=%g", options.coordinator_grace_seconds),
      "--log-level=" + (context.log_level.empty() ? "warning" : context.log_level),
      std::string("--log-format=") + (options.json_log ? "json" : "text")};
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (!value.empty()) command.push_back(flag + "=" + value);
  };
  if (index < std::max(1, options.stores)) AddStoreFlags(options, &command);
  if (index == 0) AddCoordinatorFlags(options, again, &command);
  if (index > 0) add("--coordinator", coordinator);
  add("--max-memory", options.max_memory);
  add("--network-interface", context.network_interface);
  if (!context.timeline.empty() && !lone) {
    add("--timeline", TimelineFileName(context.timeline, absl::StrFormat("server%d", reducer),
                                       context.restart, "json"));
  }
  add("--port-range", WithoutHeldPort(context.port_range));
  add("--transport", context.transport);
  if (context.trusted_fabric) command.push_back("--trusted-fabric");
  if (!context.trusted_fabric && !options.tls) command.push_back("--insecure");
  return command;
}

}  // namespace

double SilenceSeconds(const RunOptions& options) {
  return std::max(kLeastSilenceSeconds, 3 * options.failure_timeout_seconds);
}

double StartSeconds(const RunOptions& options) {
  return std::max(SilenceSeconds(options), options.join_timeout_seconds / 2);
}

int NumberOfServer(const RunOptions& options, int index) {
  const bool lone = index == 0 && options.lone_coordinator;
  return lone ? options.reducers() : index - options.servers + options.reducers();
}

std::string NameOfServer(const RunOptions& options, int index) {
  if (!options.lone_coordinator) return absl::StrFormat("server %d", index);
  return index == 0 ? "coordinator" : absl::StrFormat("server %d", index - 1);
}

const std::string& HostOfServer(const RunOptions& options, int index) {
  const int reducer = options.lone_coordinator ? std::max(0, index - 1) : index;
  return options.places[reducer % options.places.size()].host;
}

Job ServerJob(const RunOptions& options, int index, const std::string& coordinator) {
  Job job;
  job.host = HostOfServer(options, index);
  job.network_interface = options.context.network_interface;
  job.port_range = options.context.port_range;
  if (job.host != "localhost") job.silence_seconds = SilenceSeconds(options);
  job.master_port = index == 0 && coordinator.empty();
  if (index == 0 && options.temporary_store) job.scratch = options.store;
  job.directory = options.directory;
  job.command = ServerCommand(options, index, coordinator);
  job.environment["RINGWOOD_TOKEN"] = options.context.token;
  job.slots.push_back({NameOfServer(options, index), {}});
  return job;
}

Job RankJob(const RunOptions& options, const HostRanks& place) {
  Job job;
  job.host = place.host;
  job.network_interface = options.context.network_interface;
  job.port_range = options.context.port_range;
  if (place.host != "localhost") job.silence_seconds = SilenceSeconds(options);
  job.directory = options.directory;
  job.command = options.command;
  job.environment = options.environment;
  for (int local = 0; local < place.count; ++local) {
    job.slots.push_back({absl::StrFormat("rank %d", place.first_rank + local),
                         RankEnvironment(options.context, place, local)});
  }
  return job;
}

Job RankJob(const RunOptions& options, int rank) {
  for (const HostRanks& place : options.places) {
    if (rank >= place.first_rank + place.count) continue;
    Job job = RankJob(options, place);
    job.slots = {job.slots[rank - place.first_rank]};
    return job;
  }
  return {};
}

Job CleaningJob(const RunOptions& options) {
  Job job;
  job.host = options.places[0].host;
  job.command = {"rm", "-rf", "--", options.store};
  job.slots.push_back({"cleaning", {}});
  return job;
}

}  // namespace ringwood
