#include "launch/run.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "launch/attempt.h"
#include "launch/network.h"
#include "launch/orphans.h"
#include "timeline/name.h"

namespace ringwood {
namespace {

constexpr double kLeastSilenceSeconds = 15;  // a launcher on a busy machine is not gone
constexpr double kLongestPauseSeconds = 16;
constexpr double kCleaningSeconds = 10;
constexpr double kReattachSeconds = 30;  // what a member waits for a coordinator that went away

// Where the last events are that survive a death: of the rank that failed, or of rank 0 where a
// server did. A file on another host cannot be looked for from here.
void PointToFlight(const RunOptions& options, const Attempt& attempt, int member, Output* output) {
  const RankContext& context = options.context;
  if (context.flight_record.empty()) return;
  const int rank = std::max(0, member - options.servers);
  const std::string file =
      TimelineFileName(context.flight_record, absl::StrFormat("rank%d", rank),
                       context.restart + attempt.restarts(options.servers + rank), "flight");
  const std::string name = attempt.Name(options.servers + rank);
  const bool elsewhere = name.find("(host localhost)") == std::string::npos;
  if (!elsewhere && !std::filesystem::exists(file)) return;
  output->Say(
      absl::StrFormat("ringwood: the last events of %s: ringwood trace flight %s", name, file));
}

void PrintTail(const Attempt& attempt, int member, Output* output) {
  const std::vector<std::string> tail = attempt.Tail(member);
  if (tail.empty()) return;
  output->Say(absl::StrFormat("ringwood: last lines of %s:", attempt.Name(member)));
  for (const std::string& line : tail) output->Say("  | " + line);
}

void PrintFailure(const RunOptions& options, const Attempt& attempt, const Verdict& verdict,
                  Output* output) {
  if (!verdict.told.empty()) output->Say("ringwood: " + verdict.told);
  if (verdict.culprit < 0) {
    output->Say("ringwood: " + verdict.reason);
    if (verdict.first >= 0) PrintTail(attempt, verdict.first, output);
    return;
  }
  const std::string name = attempt.Name(verdict.culprit);
  output->Say(absl::StrFormat("ringwood: %s failed first: it %s", name, verdict.reason));
  PrintTail(attempt, verdict.culprit, output);
  if (verdict.first >= 0) {
    output->Say(absl::StrFormat("ringwood: %s was the first to end by itself: it %s",
                                attempt.Name(verdict.first), verdict.first_reason));
    PrintTail(attempt, verdict.first, output);
  }
  PointToFlight(options, attempt, verdict.culprit, output);
}

// A host that is away, or a port that is still taken, is not back at once.
double PauseSeconds(int unreachable) {
  return unreachable == 0 ? 0 : std::min(kLongestPauseSeconds, std::exp2(unreachable - 1));
}

// Waits until `time`; false when a signal asked to end meanwhile.
bool WaitUntil(TimePoint time, SignalDescriptor* signals) {
  for (;;) {
    for (int signal = signals->Next(); signal != 0; signal = signals->Next()) {
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return false;
    }
    const double left = ToSeconds(time - Now());
    if (left <= 0) return true;
    pollfd wait = {signals->descriptor(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(std::min(left, 1.0) * 1000) + 1);
  }
}

// An error of the removal is ignored: nothing is left to handle it.
void RemoveTemporaryStore(const RunOptions& options) {
  auto remote = Remote::Start(options.reach, CleaningJob(options), 0);
  if (!remote.ok()) return;
  bool ended = false;
  const TimePoint deadline = Now() + Seconds(kCleaningSeconds);
  while (!ended && Now() < deadline) {
    const Status status = (*remote)->Progress(true, [&](const Report& report) {
      ended |= report.kind == ReportKind::kEnded || report.kind == ReportKind::kFailed;
    });
    if (!status.ok() || ended) break;
    std::vector<pollfd> wait;
    for (const Remote::Stream& stream : (*remote)->Streams(true)) {
      wait.push_back({stream.descriptor, stream.events, 0});
    }
    ::poll(wait.data(), wait.size(), 100);
  }
}

}  // namespace

double SilenceSeconds(const RunOptions& options) {
  return std::max(kLeastSilenceSeconds, 3 * options.failure_timeout_seconds);
}

Job CleaningJob(const RunOptions& options) {
  Job job;
  job.host = options.places[0].host;
  job.command = {"rm", "-rf", "--", options.store};
  job.slots.push_back({"cleaning", {}});
  return job;
}

Job ServerJob(const RunOptions& options, int index, const std::string& coordinator) {
  const RankContext& context = options.context;
  const std::string& host = options.places[index % options.places.size()].host;
  Job job;
  job.host = host;
  job.network_interface = context.network_interface;
  job.port_range = context.port_range;
  if (host != "localhost") job.silence_seconds = SilenceSeconds(options);
  job.master_port = index == 0 && coordinator.empty();
  if (index == 0 && options.temporary_store) job.scratch = options.store;
  job.directory = options.directory;
  job.command = {host == "localhost" ? options.reach.program : options.reach.remote_program,
                 "server",
                 "--listen=" + (index == 0 && !coordinator.empty() ? coordinator : ":0"),
                 "--host=" + host,
                 "--servers=" + std::to_string(options.servers),
                 "--reducer-index=" + std::to_string(index),
                 absl::StrFormat("--failure-timeout=%g", options.failure_timeout_seconds),
                 absl::StrFormat("--join-timeout=%g", options.join_timeout_seconds),
                 absl::StrFormat("--stall-timeout=%g", options.stall_timeout_seconds),
                 absl::StrFormat("--coordinator-grace=%g", options.coordinator_grace_seconds),
                 "--log-level=" + (context.log_level.empty() ? "warning" : context.log_level)};
  if (index == 0) job.command.push_back("--store=" + options.store);
  if (index == 0 && context.restart > 0) {
    // The server before may still be in its last write; the server gives up before its launcher
    // does.
    job.command.push_back(
        absl::StrFormat("--store-patience=%g", 0.8 * options.join_timeout_seconds));
  }
  if (index == 0 && options.elastic) {
    const ElasticRun& elastic = *options.elastic;
    job.command.push_back("--elastic");
    job.command.push_back("--min-np=" + std::to_string(elastic.min_ranks));
    if (elastic.max_ranks > 0) {
      job.command.push_back("--max-np=" + std::to_string(elastic.max_ranks));
    }
    if (!coordinator.empty()) {
      job.command.push_back(absl::StrFormat("--reattach-grace=%g", kReattachSeconds));
    }
  }
  if (!options.max_memory.empty()) job.command.push_back("--max-memory=" + options.max_memory);
  if (index > 0) job.command.push_back("--coordinator=" + coordinator);
  if (!context.network_interface.empty()) {
    job.command.push_back("--network-interface=" + context.network_interface);
  }
  if (!context.timeline.empty()) {
    job.command.push_back("--timeline=" + TimelineFileName(context.timeline,
                                                           absl::StrFormat("server%d", index),
                                                           context.restart, "json"));
  }
  if (!context.port_range.empty()) {
    job.command.push_back("--port-range=" + WithoutHeldPort(context.port_range));
  }
  if (!context.transport.empty()) job.command.push_back("--transport=" + context.transport);
  job.command.push_back(context.trusted_fabric ? "--trusted-fabric" : "--insecure");
  job.environment["RINGWOOD_TOKEN"] = context.token;
  job.slots.push_back({absl::StrFormat("server %d", index), {}});
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

int RunJob(const RunOptions& options) {
  SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE};
  Orphans orphans;  // of a worker that was killed
  Output output({1, 2, options.output_prefix});
  const TimePoint start = Now();
  RunOptions now = options;
  int unreachable = 0;  // attempts in a row
  int again = 0;        // processes of elastic attempts that were started again
  for (int restart = 0;; ++restart) {
    now.context.restart = restart;
    // A new job continues as itself: from its own newest checkpoint, or from the beginning.
    if (restart > 0 && options.context.resume.empty()) now.context.resume = "auto";
    Attempt attempt(now, &signals, &output);
    Verdict verdict = attempt.Run();
    orphans.End();
    again += attempt.restarts();
    if (verdict.exit_code != kExitOk) PrintFailure(now, attempt, verdict, &output);
    unreachable = verdict.unreachable ? unreachable + 1 : 0;
    if (verdict.restart_helps && restart < options.max_restarts) {
      const TimePoint next = std::max(attempt.over(), Now() + Seconds(PauseSeconds(unreachable)));
      const double pause = ToSeconds(next - Now());
      output.Say(absl::StrFormat("ringwood: restarting all from the newest checkpoint (%d of %d)%s",
                                 restart + 1, options.max_restarts,
                                 pause > 1 ? absl::StrFormat(" in %.0f s", pause) : ""));
      output.Flush();
      if (WaitUntil(next, &signals)) continue;
      verdict.exit_code = kExitInterrupted;
    }
    output.Say(absl::StrFormat(
        "ringwood: %s on %s %s after %.1f s, %s%s", FormatCount(options.context.world, "rank"),
        FormatCount(static_cast<int>(options.places.size()), "host"),
        verdict.exit_code == kExitOk ? "finished"
                                     : "ended with exit code " + std::to_string(verdict.exit_code),
        ToSeconds(Now() - start), FormatCount(restart, "restart"),
        again > 0 ? absl::StrFormat(", %d of single processes", again) : ""));
    attempt.FlushOutput();
    if (options.temporary_store) RemoveTemporaryStore(options);
    return verdict.exit_code;
  }
}

}  // namespace ringwood
