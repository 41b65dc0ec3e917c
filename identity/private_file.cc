#include "identity/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

}  // namespace

Status MakePrivateFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) == 0) return OkStatus();
  const int error = errno;
  struct stat about {};
  if (error != EEXIST || lstat(folder.c_str(), &about) != 0) {
    return Refused(absl::StrFormat("cannot make the folder %s: %s", folder, std::strerror(error)));
  }
  if (S_ISDIR(about.st_mode) && about.st_uid == geteuid() && (about.st_mode & 0077) == 0) {
    return OkStatus();
  }
  return Refused(absl::StrFormat(
      "%s is not a folder of this user alone (mode 0700): name one that does not exist yet, or "
      "chmod 700 it",
      folder));
}

StatusOr<SmallFile> ReadSmallFile(const std::string& path, size_t most) {
  const OpenFile file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto why = [&path] {
    return absl::StrFormat("cannot read %s: %s", path, std::strerror(errno));
  };
  if (file.get() < 0) return errno == ENOENT ? NotFound(why()) : Refused(why());
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return Refused(why());
  if (!S_ISREG(about.st_mode)) return Invalid(path + " is not a file");
  std::string content(most, '\0');
  const ssize_t bytes = read(file.get(), content.data(), content.size());
  if (bytes < 0) return Refused(why());
  content.resize(static_cast<size_t>(bytes));
  return SmallFile{std::move(content), about.st_uid, about.st_mode & 07777};
}

bool IsPrivate(const SmallFile& file) {
  const mode_t forbidden = file.owner == 0 && geteuid() != 0 ? 0037 : 0077;
  return (file.owner == geteuid() || file.owner == 0) && (file.mode & forbidden) == 0;
}

Status CheckKeyIsPrivate(const std::string& path, const SmallFile& file) {
  if (IsPrivate(file)) return OkStatus();
  return Denied(absl::StrFormat(
      "the key %s can be read by others (owner %d, mode %04o): chmod 600 it, and issue a new one "
      "if others have been on this machine",
      path, file.owner, file.mode));
}

bool IsPrivateOrAnothers(const SmallFile& file) {
  return file.owner != geteuid() || (file.mode & 0077) == 0;
}

}  // namespace ringwood
