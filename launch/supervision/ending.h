// How a process of the job ended, what that means for the job, and the exit codes that say it.
//
// What the end of a process means:
//   restart        a signal, also as a shell's 128 + signal; 75; of a server anything but 78
//   configuration  78; 126 and 127, by which a shell says that it could not start a command
//   its own        any other code: the program failed, and would most likely fail again
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringwood {

// Exit codes of `ringwood run` (sysexits.h: EX_TEMPFAIL, EX_CONFIG; and the shell's for SIGINT).
inline constexpr int kExitOk = 0;
inline constexpr int kExitRestart = 75;
inline constexpr int kExitConfiguration = 78;
inline constexpr int kExitInterrupted = 130;

// 78 for what no restart can fix (bad input, wrong state, security), else 75.
int ExitCodeOf(const Status& status);

inline constexpr int kShellSignals = 128;  // a shell adds the signal that ended its command

// How a process ended, as the launcher judges it.
struct Ending {
  int code = 0;          // exit code; 128 + signal where a signal ended it
  int signal = 0;        // 0: it exited by itself
  bool stopped = false;  // it was stopped (SIGSTOP) when it was asked to end
  bool operator==(const Ending&) const = default;
};

enum class Meaning : uint8_t { kRestart, kConfiguration, kOwn };
Meaning MeaningOf(const Ending& ending, bool server);

// "was killed by signal 9 (SIGKILL)" | "exited with code 1" | …
std::string Describe(const Ending& ending);

}  // namespace ringwood
