#include "launch/supervision/ending.h"

#include <csignal>
#include <cstring>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

// A shell's words for a command that it cannot start.
constexpr int kCannotExecute = 126;
constexpr int kNoSuchCommand = 127;

}  // namespace

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
    case StatusCode::kDataLoss:  // a file that is damaged stays damaged
      return kExitConfiguration;
    default:
      return kExitRestart;
  }
}

Meaning MeaningOf(const Ending& ending, bool server) {
  if (ending.stopped || ending.signal != 0) return Meaning::kRestart;
  if (ending.code == kExitConfiguration) return Meaning::kConfiguration;
  if (server || ending.code == kExitRestart) return Meaning::kRestart;
  if (ending.code == kCannotExecute || ending.code == kNoSuchCommand) {
    return Meaning::kConfiguration;
  }
  const bool signal = ending.code > kShellSignals && ending.code <= kShellSignals + SIGRTMAX;
  return signal || ending.code == 0 ? Meaning::kRestart : Meaning::kOwn;
}

std::string Describe(const Ending& ending) {
  if (ending.stopped) return "was stopped (SIGSTOP) and did not come back";
  if (ending.signal != 0) {
    const char* name = ::sigabbrev_np(ending.signal);
    return absl::StrFormat("was killed by signal %d (SIG%s)", ending.signal,
                           name == nullptr ? "?" : name);
  }
  return absl::StrFormat("exited with code %d", ending.code);
}

}  // namespace ringwood
