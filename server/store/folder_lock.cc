#include "server/store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ringwood {

StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder,
                                                       const LockPatience& patience) {
  const std::string file = folder + "/lock";
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return Refused("cannot open " + file + ": " + std::strerror(errno));
  std::unique_ptr<FolderLock> lock(new FolderLock(descriptor));
  int failed = 0;
  RW_RETURN_IF_ERROR(AwaitLock("the store " + folder, patience, [&] {
    failed = flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    return failed != EWOULDBLOCK && failed != EINTR;
  }));
  if (failed != 0) return Refused("cannot lock " + file + ": " + std::strerror(failed));
  return lock;
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace ringwood
