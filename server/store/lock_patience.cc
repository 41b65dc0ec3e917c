#include "server/store/lock_patience.h"

#include <thread>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace ringwood {
namespace {

constexpr double kLockPauseSeconds = 0.05;

}  // namespace

Status AwaitLock(const std::string& what, const LockPatience& patience,
                 const std::function<bool()>& take) {
  const TimePoint deadline = Now() + patience.time;
  for (bool told = false;; told = true) {
    if (take()) return OkStatus();
    if (patience.time == Duration::zero()) {
      return Refused(what +
                     " is in use by another process: stop that server, or give another --store "
                     "directory");
    }
    if (patience.gives_up && patience.gives_up()) {
      return Unavailable("this server ends: it waits no longer for " + what);
    }
    if (Now() >= deadline) {
      return Unavailable(absl::StrFormat("%s was still held by another process after %.0f s", what,
                                         ToSeconds(patience.time)));
    }
    if (!told) Log(LogLevel::kWarning, what + " is held by another process: waiting for it");
    std::this_thread::sleep_for(Seconds(kLockPauseSeconds));
  }
}

}  // namespace ringwood
