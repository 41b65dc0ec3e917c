#include "base/files/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/files/replaceable.h"

namespace ringwood {
namespace {

// 0, or errno. A disk may find only when it is synced that it has no room. Closes the file.
int WriteAndSync(int file, const std::string& content) {
  int error = 0;
  for (size_t at = 0; error == 0 && at < content.size();) {
    const ssize_t wrote = write(file, content.data() + at, content.size() - at);
    if (wrote >= 0) {
      at += static_cast<size_t>(wrote);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

Status WriteWhole(const std::string& path, const std::string& content, int mode) {
  RW_ASSIGN_OR_RETURN(const std::string place, ReplaceableFile(path));
  const std::string fresh = place + ".new";
  unlink(fresh.c_str());
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  int error = file < 0 ? errno : WriteAndSync(file, content);
  if (error == 0 && rename(fresh.c_str(), place.c_str()) != 0) error = errno;
  if (error == 0) return OkStatus();
  if (file >= 0) unlink(fresh.c_str());
  const std::string why = absl::StrFormat("cannot write %s: %s", path, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return Unavailable(why + ": free space on this disk");
  return error == EIO ? Unavailable(why) : Refused(why);
}

}  // namespace ringwood
