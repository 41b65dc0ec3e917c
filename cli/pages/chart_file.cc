#include "cli/pages/chart_file.h"

#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/files/replaceable.h"
#include "base/files/whole_file.h"

namespace ringwood {
namespace {

constexpr double kConverterSeconds = 60;

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Its own, where it is there.
int ModeOf(const std::string& file) {
  struct stat about {};
  return stat(file.c_str(), &about) == 0 ? static_cast<int>(about.st_mode & 0777) : 0666;
}

Status CannotWrite(const std::string& file) {
  return Invalid(absl::StrCat(file, ": it cannot be written: ", std::strerror(errno)));
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
      return TimedOut(
          absl::StrCat(png_file, ": rsvg-convert took more than 60 s; ask for an .svg instead"));
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
  if (!ReplaceableFile(file).ok()) {  // a terminal, a pipe: it has no content that could be lost
    std::ofstream out(file, std::ios::binary);
    out << text;
    out.close();
    return out ? OkStatus() : CannotWrite(file);
  }
  const Status written = WriteWhole(file, text, ModeOf(file));
  return written.ok() ? written : Invalid(Message(written));
}

Status WriteChart(const std::string& file, const std::string& svg) {
  if (EndsWith(file, ".svg")) return WriteText(file, svg);
  if (!EndsWith(file, ".png")) return Invalid(absl::StrCat(file, ": charts are .svg or .png"));
  const auto place = ReplaceableFile(file);
  if (!place.ok()) return Invalid(Message(place.status()));
  const std::string temporary = absl::StrCat(*place, ".", getpid());
  const std::string svg_file = temporary + ".svg", png_file = temporary + ".png";
  RW_RETURN_IF_ERROR(WriteText(svg_file, svg));
  Status converted = Convert(svg_file, png_file);
  if (converted.ok() && std::rename(png_file.c_str(), place->c_str()) != 0) {
    converted = CannotWrite(file);
  }
  std::remove(svg_file.c_str());
  if (!converted.ok()) std::remove(png_file.c_str());
  return converted;
}

}  // namespace ringwood
