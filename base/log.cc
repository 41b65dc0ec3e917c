#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/log_limit.h"
#include "base/log_line.h"

namespace ringwood {
namespace {

// The log belongs to the process, as standard error does; hence statics.
std::atomic<int> g_level{static_cast<int>(LogLevel::kInfo)};
std::atomic<uint64_t> g_epoch{0}, g_step{0};
thread_local char t_label[72] = "";  // no destructor: threads may log until the very end
thread_local uint64_t t_epoch = 0, t_step = 0;
struct Name {
  absl::Mutex mutex;
  std::string who ABSL_GUARDED_BY(mutex) = "ringwood";
  LogFormat format ABSL_GUARDED_BY(mutex) = LogFormat::kText;
  LogLimit limit ABSL_GUARDED_BY(mutex);
};
Name& TheName() {
  static Name* const name = new Name;  // never destroyed: threads may log until the very end
  return *name;
}

void Write(LogLine line, bool limited) {
  if (static_cast<int>(line.level) < g_level) return;
  line.epoch = *t_label == 0 ? g_epoch.load() : t_epoch;
  line.step = *t_label == 0 ? g_step.load() : t_step;
  line.unix_seconds =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  Name& name = TheName();
  std::string text;
  {
    absl::MutexLock lock(&name.mutex);
    if (limited) {
      const auto left_out = name.limit.Admit(line.event + std::string(t_label), Now());
      if (!left_out) return;
      line.left_out = *left_out;
    }
    line.who = name.who;
    if (*t_label != 0) line.text = t_label + (": " + line.text);
    text = FormatLogLine(line, name.format);
  }
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

// A new descriptor has the lowest number that is free.
void HoldStandardDescriptors() {
  for (int descriptor = 0; descriptor <= STDERR_FILENO;) {
    descriptor = open("/dev/null", O_RDWR);
    if (descriptor < 0) return;  // there is no /dev/null, or no descriptor is left
    if (descriptor > STDERR_FILENO) close(descriptor);
  }
}

void SetLog(LogLevel level, const std::string& who, LogFormat format) {
  g_level = static_cast<int>(level);
  Name& name = TheName();
  absl::MutexLock lock(&name.mutex);
  name.who = who;
  name.format = format;
}

void SetLogPlace(uint64_t epoch, uint64_t step) {
  if (*t_label == 0) {
    g_epoch = epoch;
    g_step = step;
  } else {
    t_epoch = epoch;
    t_step = step;
  }
}

void SetLogLabel(const std::string& label) { t_label[label.copy(t_label, sizeof t_label - 1)] = 0; }
std::string LogLabel() { return t_label; }

StatusOr<LogLevel> ParseLogLevel(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  if (name == "info") return LogLevel::kInfo;
  return Invalid("the log level '" + name + "' is none of debug, info, warning, error");
}

StatusOr<LogFormat> ParseLogFormat(const std::string& name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return Invalid("the log format '" + name + "' is none of text, json");
}

void Log(LogLevel level, const char* event, const std::string& text) {
  Write({.level = level, .event = event, .text = text}, true);
}

void Log(LogLevel level, const std::string& text) {
  Write({.level = level, .event = "note", .text = text}, false);
}

}  // namespace ringwood
