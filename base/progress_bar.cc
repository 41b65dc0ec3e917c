#include "base/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/units.h"

namespace ringwood {
namespace {

constexpr double kPauseSeconds = 0.1;   // between two lines
constexpr double kSilentSeconds = 0.5;  // what ends sooner needs no bar, and has no steady rate yet
constexpr size_t kBarColumns = 24;
constexpr size_t kUsualColumns = 80;

size_t Columns() {
  winsize window{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1;
  return known ? window.ws_col - 1u : kUsualColumns - 1;  // the last one would begin a new line
}

}  // namespace

std::string ProgressLine(const std::string& what, uint64_t done, uint64_t all, double seconds,
                         size_t columns) {
  const double share = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
  const size_t full = static_cast<size_t>(share * kBarColumns);
  std::string line = absl::StrFormat("%s  [%s%s] %3.0f %%  %s of %s", what, std::string(full, '#'),
                                     std::string(kBarColumns - full, '.'), 100 * share,
                                     FormatBytes(static_cast<double>(done)),
                                     FormatBytes(static_cast<double>(all)));
  if (seconds > 0 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    const auto left = static_cast<uint64_t>(static_cast<double>(all - done) / rate);
    line += absl::StrFormat("  %s/s  %d:%02d left", FormatBytes(rate), left / 60, left % 60);
  }
  return line.substr(0, columns);
}

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)),
      on_(isatty(STDERR_FILENO) == 1),
      begin_(Now()),
      next_(begin_ + Seconds(kSilentSeconds)) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Show(uint64_t done, uint64_t all) {
  const TimePoint now = Now();
  if (!on_ || now < next_) return;
  next_ = now + Seconds(kPauseSeconds);
  shown_ = true;
  const std::string line =
      ProgressLine(what_, std::min(done, all), all, ToSeconds(now - begin_), Columns());
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
}

}  // namespace ringwood
