#include "base/log.h"

#include <unistd.h>

#include <atomic>

namespace ringwood {
namespace {

// A log is the process's, as standard error is: the one place where a static is the honest form.
std::atomic<int> g_level{static_cast<int>(LogLevel::kInfo)};
std::string& Who() {
  static std::string* who = new std::string("ringwood");
  return *who;
}

}  // namespace

void SetLog(LogLevel level, const std::string& who) {
  g_level = static_cast<int>(level);
  Who() = who;
}

LogLevel ParseLogLevel(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

void Log(LogLevel level, const std::string& text) {
  if (static_cast<int>(level) < g_level) return;
  const std::string line =
      std::string(1, "DIWE"[static_cast<int>(level)]) + " " + Who() + ": " + text + "\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace ringwood
