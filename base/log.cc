#include "base/log.h"

#include <unistd.h>

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace ringwood {
namespace {

// A log is the process's, as standard error is: the one place where a static is the honest form.
std::atomic<int> g_level{static_cast<int>(LogLevel::kInfo)};
struct Name {
  absl::Mutex mutex;
  std::string who ABSL_GUARDED_BY(mutex) = "ringwood";
};
Name& TheName() {
  static Name* const name = new Name;  // never destroyed: threads may log until the very end
  return *name;
}

}  // namespace

void SetLog(LogLevel level, const std::string& who) {
  g_level = static_cast<int>(level);
  Name& name = TheName();
  absl::MutexLock lock(&name.mutex);
  name.who = who;
}

StatusOr<LogLevel> ParseLogLevel(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  if (name == "info") return LogLevel::kInfo;
  return Invalid("the log level '" + name + "' is none of debug, info, warning, error");
}

void Log(LogLevel level, const std::string& text) {
  if (static_cast<int>(level) < g_level) return;
  Name& name = TheName();
  std::string line(1, "DIWE"[static_cast<int>(level)]);
  {
    absl::MutexLock lock(&name.mutex);
    line += " " + name.who + ": " + text + "\n";
  }
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace ringwood
