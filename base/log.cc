#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/log_limit.h"
#include "base/log_line.h"

namespace ringwood {
namespace {

constexpr double kReaderSeconds = 0.5;  // for a pipe's reader to make room for a line, once
constexpr size_t kRoom = 4096;          // PIPE_BUF: poll() promises that so much can be written

bool IsFile(int descriptor) {
  struct stat what = {};
  return ::fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode);
}

// Standard output or error. Threads that serve others write there, and where nobody reads must not
// stand still. (O_NONBLOCK would hold for every process that has the same pipe or terminal.)
class StandardStream {
 public:
  StandardStream(int descriptor, const char* name) : name(name), descriptor_(descriptor) {}

  // How many lines before this one were left out; nothing: so is this one. An error of the file is
  // no failure: whoever read it has ended.
  std::optional<uint64_t> Write(const std::string& line) {
    absl::MutexLock lock(&mutex_);
    const std::string text = (torn_ ? "\n" : "") + line;
    // A file, which always has room, gets the line at once: others may write to it, too.
    const size_t most = text.size() > kRoom && IsFile(descriptor_) ? text.size() : kRoom;
    const TimePoint deadline = Now() + Seconds(left_out_ > 0 ? 0 : kReaderSeconds);
    for (size_t done = 0; done < text.size();) {
      pollfd room = {descriptor_, POLLOUT, 0};
      const double left = std::max(0.0, ToSeconds(deadline - Now()));
      const int ready = ::poll(&room, 1, static_cast<int>(std::ceil(1e3 * left)));
      if (ready == 0) {
        torn_ |= done > 0;
        ++left_out_;
        return std::nullopt;
      }
      if (ready < 0 && errno == EINTR) continue;
      const size_t size = std::min(most, text.size() - done);
      const ssize_t count = ::write(descriptor_, text.data() + done, size);
      if (count < 0 && errno != EINTR && errno != EAGAIN) break;
      done += std::max<ssize_t>(count, 0);
    }
    torn_ = false;
    return std::exchange(left_out_, 0);
  }

  const char* const name;

 private:
  const int descriptor_;
  absl::Mutex mutex_;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;  // lines, since one was written
  bool torn_ ABSL_GUARDED_BY(mutex_) = false;      // the last one that was left out had begun
};

// Never destroyed: threads may log until the very end.
StandardStream& TheOutput() {
  static StandardStream* const output = new StandardStream(STDOUT_FILENO, "standard output");
  return *output;
}
StandardStream& TheError() {
  static StandardStream* const error = new StandardStream(STDERR_FILENO, "standard error");
  return *error;
}

void Put(StandardStream& stream, const std::string& line) {
  const auto left_out = stream.Write(line);
  if (left_out.value_or(0) == 0) return;
  Log(LogLevel::kWarning,
      absl::StrFormat("nobody read %s for a while: %d lines before the last one are missing there",
                      stream.name, *left_out));
}

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
  Put(TheError(), text);
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

void PrintLine(const std::string& line) { Put(TheOutput(), line + "\n"); }

void Log(LogLevel level, const char* event, const std::string& text) {
  Write({.level = level, .event = event, .text = text}, true);
}

void Log(LogLevel level, const std::string& text) {
  Write({.level = level, .event = "note", .text = text}, false);
}

}  // namespace ringwood
