#include "cli/pages/chart_file.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace ringwood {
namespace {

constexpr double kConverterSeconds = 60;

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Status Convert(const std::string& svg_file, const std::string& png_file) {
  std::string words[] = {"rsvg-convert", "-o", png_file, svg_file};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  char* no_environment[] = {nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, "rsvg-convert", nullptr, nullptr, arguments, no_environment) != 0) {
    return Refused(absl::StrCat(png_file,
                                ": rsvg-convert is not installed (package "
                                "librsvg2-bin); ask for an .svg instead"));
  }
  const TimePoint deadline = Now() + Seconds(kConverterSeconds);
  int state = 0;
  while (waitpid(child, &state, WNOHANG) == 0) {
    if (Now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &state, 0);
      return TimedOut(absl::StrCat(png_file, ": rsvg-convert took more than 60 s"));
    }
    usleep(2000);
  }
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    return Unavailable(absl::StrCat(png_file, ": rsvg-convert failed; ask for an .svg instead"));
  }
  return OkStatus();
}

}  // namespace

Status WriteText(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return Invalid(absl::StrCat(file, ": it cannot be written"));
  return OkStatus();
}

Status WriteChart(const std::string& file, const std::string& svg) {
  if (EndsWith(file, ".svg")) return WriteText(file, svg);
  if (!EndsWith(file, ".png")) return Invalid(absl::StrCat(file, ": charts are .svg or .png"));
  const std::string temporary = absl::StrCat(file, ".", getpid(), ".svg");
  RW_RETURN_IF_ERROR(WriteText(temporary, svg));
  const Status converted = Convert(temporary, file);
  std::remove(temporary.c_str());
  return converted;
}

}  // namespace ringwood
