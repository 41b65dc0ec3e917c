#include "server/store/portable/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/files/replaceable.h"

namespace ringwood {
namespace {

// The file that is open is the one of this name: not one that another process has renamed since.
bool IsStillNamed(int descriptor, const std::string& path) {
  struct stat open {
  }, named{};
  return fstat(descriptor, &open) == 0 && lstat(path.c_str(), &named) == 0 &&
         S_ISREG(open.st_mode) && open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

std::string FolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

std::string OpenAt(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

// By errno: FILE.part may be a folder or a link.
std::string CannotName(const std::string& path) {
  const bool in_the_way = errno == EISDIR || errno == ELOOP || errno == EEXIST;
  return "cannot write " + path + (in_the_way ? " by way of " + path + ".part" : "");
}

// Below zero: this file system cannot, or nobody could give it a name later.
int OpenNameless(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor < 0 || access(OpenAt(descriptor).c_str(), F_OK) == 0) return descriptor;
  close(descriptor);
  return -1;
}

}  // namespace

PartFile::PartFile(std::string path, int descriptor, bool named)
    : path_(std::move(path)), part_(path_ + ".part"), descriptor_(descriptor), named_(named) {}

Status PartFile::Failed(const std::string& what) const {
  const std::string message = what + ": " + std::strerror(errno);
  if (errno != ENOSPC && errno != EDQUOT) return Unavailable(message);
  return Unavailable(message + ": free space on this disk, or choose another");
}

StatusOr<std::unique_ptr<PartFile>> PartFile::Create(const std::string& name, uint64_t bytes) {
  RW_ASSIGN_OR_RETURN(const std::string path, ReplaceableFile(name));
  if (const int nameless = OpenNameless(FolderOf(path)); nameless >= 0) {
    std::unique_ptr<PartFile> file(new PartFile(path, nameless, false));
    RW_RETURN_IF_ERROR(file->Reserve(bytes));
    return file;
  }
  const std::string part = path + ".part";
  const int descriptor =
      open(part.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor < 0) return Refused(CannotName(path) + ": " + std::strerror(errno));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 || !IsStillNamed(descriptor, part)) {
    close(descriptor);
    return Refused("another process writes " + path + ": wait for it, or give another name");
  }
  std::unique_ptr<PartFile> file(new PartFile(path, descriptor, true));
  RW_RETURN_IF_ERROR(file->Reserve(bytes));
  return file;
}

Status PartFile::Reserve(uint64_t bytes) {
  if (ftruncate(descriptor_, 0) != 0) return Failed("cannot write " + path_);
  const auto size = static_cast<off_t>(bytes);
  if (bytes != 0 && fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, size) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS) {
    return Failed("cannot write " + path_);
  }
  return OkStatus();
}

PartFile::~PartFile() {
  if (named_ && !published_) unlink(part_.c_str());
  close(descriptor_);  // with it the lock
}

Status PartFile::Append(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t wrote = write(descriptor_, bytes.data() + at, bytes.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Failed("cannot write " + path_);
    at += static_cast<size_t>(wrote);
  }
  return OkStatus();
}

// A link cannot take the place of another file, a name can.
Status PartFile::Name() {
  unlink(part_.c_str());
  if (linkat(AT_FDCWD, OpenAt(descriptor_).c_str(), AT_FDCWD, part_.c_str(), AT_SYMLINK_FOLLOW) !=
      0) {
    return Failed(CannotName(path_));
  }
  named_ = true;
  return OkStatus();
}

Status PartFile::Publish() {
  if (fsync(descriptor_) != 0) return Failed("cannot sync " + path_);
  if (!named_) RW_RETURN_IF_ERROR(Name());
  if (rename(part_.c_str(), path_.c_str()) != 0) return Failed("cannot write " + path_);
  published_ = true;
  const int folder = open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = folder >= 0 && fsync(folder) == 0;
  const Status failed = synced ? OkStatus() : Failed("cannot sync the folder of " + path_);
  if (folder >= 0) close(folder);
  return failed;
}

}  // namespace ringwood
