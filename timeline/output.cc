#include "timeline/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace ringwood {
namespace {

constexpr double kLastWriteSeconds = 10;

}  // namespace

StatusOr<std::unique_ptr<TimelineOutput>> TimelineOutput::Create(const std::string& file) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return Invalid(absl::StrFormat("the timeline %s cannot be created: %s", file, strerror(errno)));
  }
  return std::unique_ptr<TimelineOutput>(new TimelineOutput(file, descriptor));
}

TimelineOutput::TimelineOutput(std::string file, int descriptor)
    : file_(std::move(file)), descriptor_(descriptor), loop_(std::make_unique<Loop>("timeline")) {}

TimelineOutput::~TimelineOutput() {
  {
    absl::MutexLock lock(&mutex_);
    if (left_out_ > 0) {
      Log(LogLevel::kWarning,
          absl::StrFormat("timeline %s: %d rounds were left out, the disk was too slow", file_,
                          left_out_));
    }
  }
  const Status written = loop_->Call([] { return OkStatus(); }, Seconds(kLastWriteSeconds));
  if (!written.ok()) Log(LogLevel::kWarning, "timeline " + file_ + ": " + Message(written));
  loop_.reset();
  close(descriptor_);
}

void TimelineOutput::Begin(std::string lines) {
  loop_->Post([this, lines = std::move(lines)] {
    if (lseek(descriptor_, 0, SEEK_CUR) > 0) {
      broken_ = ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0;
    }
    Write(lines);
  });
}

void TimelineOutput::Add(std::function<std::string()> make) {
  absl::MutexLock lock(&mutex_);
  if (waiting_ == kMaxWaiting) {
    ++left_out_;
    return;
  }
  ++waiting_;
  loop_->Post([this, make = std::move(make)] {
    Write(make());
    absl::MutexLock lock(&mutex_);
    --waiting_;
  });
}

// Not buffered: a fork of the process has nothing of ours to write, and a kill loses one round.
void TimelineOutput::Write(const std::string& lines) {
  for (size_t at = 0; at < lines.size() && !broken_;) {
    const ssize_t written = write(descriptor_, lines.data() + at, lines.size() - at);
    if (written > 0) {
      at += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      broken_ = true;
      Log(LogLevel::kWarning, absl::StrFormat("timeline %s ends here: %s", file_, strerror(errno)));
    }
  }
}

}  // namespace ringwood
