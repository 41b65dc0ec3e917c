#include "base/files/replaceable.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ringwood {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // one after the other, as many as Linux follows

// The names that the kernel makes up. /dev/shm holds files like any other folder.
bool IsOfKernel(const std::string& place) {
  if (place.starts_with("/dev/")) return !place.starts_with("/dev/shm/");
  return place.starts_with("/proc/");
}

}  // namespace

StatusOr<std::string> ReplaceableFile(const std::string& path) {
  struct stat there {};
  const bool found = stat(path.c_str(), &there) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) {  // a ring of links, a link of a stranger
    return Refused("cannot write " + path + ": " + std::strerror(errno));
  }
  fs::path file = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    std::error_code error;
    const fs::path folder = fs::canonical(file.has_parent_path() ? file.parent_path() : ".", error);
    if (error) return file.string();  // opening it says why
    const fs::path place = folder / file.filename();
    if (IsOfKernel(place)) {
      return Refused(path +
                     ": it is made whole beside its place and then renamed, which cannot be done "
                     "in /dev or /proc, nor with a pipe: name a file");
    }
    if (!fs::is_symlink(place, error)) {
      if (!found || S_ISREG(there.st_mode)) return file.string();
      return Refused(path + " is there and no regular file: give another name");
    }
    const fs::path target = fs::read_symlink(place, error);
    if (error) return Refused("cannot read the link " + path + ": " + error.message());
    file = folder / target;  // the target alone where that begins with a slash
  }
  return Refused(path + " is a link that leads to too many others: give another name");
}

}  // namespace ringwood
