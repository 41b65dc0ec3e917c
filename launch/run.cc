#include "launch/run.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "launch/attempt.h"
#include "launch/orphans.h"
#include "launch/run_jobs.h"
#include "timeline/name.h"

namespace ringwood {
namespace {

constexpr double kLongestPauseSeconds = 16;
constexpr double kSoonSeconds = 30;  // an attempt that failed so soon will soon fail again
constexpr double kCleaningSeconds = 10;
constexpr double kLostCleaningSeconds = 1;  // of a host that fell silent

constexpr int64_t kAuthoritySeconds = int64_t{10} * 365 * 86'400;  // longer than any run

// In memory only: nobody else can issue certificates for this run.
StatusOr<std::shared_ptr<const Authority>> MakeAuthority() {
  const int64_t now = std::time(nullptr);
  RW_ASSIGN_OR_RETURN(Authority made,
                      Authority::Make("ringwood run", {now - Certificates::kClockSeconds,
                                                       now + kAuthoritySeconds}));
  return std::make_shared<const Authority>(std::move(made));
}

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

void PrintFirst(const Attempt& attempt, const Verdict& verdict, Output* output) {
  output->Say(absl::StrFormat("ringwood: %s was the first to end by itself: it %s",
                              attempt.Name(verdict.first), verdict.first_reason),
              LogLevel::kWarning);
  PrintTail(attempt, verdict.first, output);
}

void PrintFailure(const RunOptions& options, const Attempt& attempt, const Verdict& verdict,
                  Output* output) {
  if (!verdict.told.empty()) output->Say("ringwood: " + verdict.told, LogLevel::kWarning);
  if (verdict.culprit < 0) {
    if (!verdict.reason.empty()) output->Say("ringwood: " + verdict.reason, LogLevel::kWarning);
    if (!verdict.first_reason.empty()) {
      PrintFirst(attempt, verdict, output);
    } else if (verdict.first >= 0) {
      PrintTail(attempt, verdict.first, output);
    }
    return;
  }
  const std::string name = attempt.Name(verdict.culprit);
  output->Say(absl::StrFormat("ringwood: %s failed first: it %s", name, verdict.reason),
              LogLevel::kWarning);
  PrintTail(attempt, verdict.culprit, output);
  if (verdict.first >= 0) PrintFirst(attempt, verdict, output);
  PointToFlight(options, attempt, verdict.culprit, output);
}

// A host that is away, a port that is still taken, or a disk that is full, is not back at once.
double PauseSeconds(int failures) {
  return failures <= 0 ? 0 : std::min(kLongestPauseSeconds, std::exp2(failures - 1));
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

// Whether the first host has done it within `seconds`; an error of the removal itself is ignored.
bool RemoveTemporaryStore(const RunOptions& options, double seconds) {
  auto remote = Remote::Start(options.reach, CleaningJob(options), 0);
  bool ended = false;
  const TimePoint deadline = Now() + Seconds(seconds);
  while (remote.ok() && !ended && Now() < deadline) {
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
  return ended;
}

// A host that fell silent does not answer now either, and is told of.
void Clean(const RunOptions& options, Attempt* attempt, Output* output) {
  const bool silent = attempt->first_host_fell_silent();
  const bool removed =
      RemoveTemporaryStore(options, silent ? kLostCleaningSeconds : kCleaningSeconds);
  if (removed || !silent) return;
  output->Say(absl::StrFormat(
      "ringwood: host %s could not be asked to remove the temporary store %s: remove it there",
      options.places[0].host, options.store));
  attempt->FlushOutput();
}

}  // namespace

int RunJob(const RunOptions& options) {
  SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE};
  Orphans orphans;  // of a worker that was killed
  Output output({1, 2, options.output_prefix, options.json_log});
  const TimePoint start = Now();
  RunOptions now = options;
  if (options.tls) {
    auto made = MakeAuthority();
    if (!made.ok()) {
      output.Say("ringwood: " + Message(made.status()), LogLevel::kError);
      return kExitConfiguration;
    }
    now.authority = *std::move(made);
  }
  int unreachable = 0;  // attempts in a row
  int soon = 0;         // attempts in a row that failed as soon as they had begun
  int again = 0;        // processes of elastic attempts that were started again
  for (int restart = 0;; ++restart) {
    now.context.restart = restart;
    // A new job continues as itself: from its own newest checkpoint, or from the beginning.
    if (restart > 0 && options.context.resume.empty()) now.context.resume = "auto";
    const TimePoint begun = Now();
    Attempt attempt(now, &signals, &output);
    Verdict verdict = attempt.Run();
    orphans.End();
    again += attempt.restarts();
    if (verdict.exit_code != kExitOk) PrintFailure(now, attempt, verdict, &output);
    unreachable = verdict.unreachable ? unreachable + 1 : 0;
    soon = Now() - begun < Seconds(kSoonSeconds) ? soon + 1 : 0;
    if (verdict.restart_helps && restart < options.max_restarts) {
      const double wait = PauseSeconds(std::max(unreachable, soon - 1));  // at once the first time
      const TimePoint next = std::max(attempt.over(), Now() + Seconds(wait));
      const double pause = ToSeconds(next - Now());
      output.Say(absl::StrFormat("ringwood: restarting all from the newest checkpoint (%d of %d)%s",
                                 restart + 1, options.max_restarts,
                                 pause > 1 ? absl::StrFormat(" in %.0f s", pause) : ""),
                 LogLevel::kWarning);
      output.Flush();
      if (WaitUntil(next, &signals)) continue;
      verdict.exit_code = kExitInterrupted;
    }
    const bool fine = verdict.exit_code == kExitOk;
    output.Say(
        absl::StrFormat(
            "ringwood: %s on %s %s after %.1f s, %s%s", FormatCount(options.context.world, "rank"),
            FormatCount(static_cast<int>(options.places.size()), "host"),
            fine ? "finished" : "ended with exit code " + std::to_string(verdict.exit_code),
            ToSeconds(Now() - start), FormatCount(restart, "restart"),
            again > 0 ? absl::StrFormat(", %d of single processes", again) : ""),
        fine ? LogLevel::kInfo : LogLevel::kError);
    attempt.FlushOutput();
    if (options.temporary_store) Clean(options, &attempt, &output);
    return verdict.exit_code;
  }
}

}  // namespace ringwood
