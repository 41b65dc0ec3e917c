#include "launch/orphans.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/clock.h"

namespace ringwood {
namespace {

constexpr int kPauseMicroseconds = 2000;

// From "PID (NAME) STATE PARENT …"; 0: it ended meanwhile.
pid_t ParentOf(pid_t pid) {
  std::ifstream file(absl::StrFormat("/proc/%d/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 4 > text.size()
             ? 0
             : std::atoi(text.c_str() + name_end + 4);
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return children;
  while (const dirent* entry = ::readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && ParentOf(pid) == ::getpid()) children.push_back(pid);
  }
  ::closedir(directory);
  return children;
}

}  // namespace

Orphans::Orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (pid_t pid : Children()) spared_.insert(pid);
}

void Orphans::End() {
  const TimePoint deadline = Now() + Seconds(kSeconds);
  while (Now() < deadline) {
    bool any = false;
    for (pid_t pid : Children()) {
      if (spared_.count(pid) != 0) continue;
      any = true;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);
    }
    if (!any) return;
    ::usleep(kPauseMicroseconds);  // SIGKILL cannot be refused, but it takes a moment
  }
}

}  // namespace ringwood
