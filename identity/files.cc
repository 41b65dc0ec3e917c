// How certificates and keys lie on the disk.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "identity/identity.h"

namespace ringwood {
namespace {

constexpr size_t kMaxPemFileBytes = 256 << 10;  // a certificate has about 1 KiB

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

// Others must not read it. The group may where root owns it, as Kubernetes mounts secrets.
Status CheckSecret(const std::string& path, const struct stat& about) {
  const bool owned = about.st_uid == geteuid() || about.st_uid == 0;
  const mode_t forbidden = about.st_uid == 0 && geteuid() != 0 ? 0037 : 0077;
  if (owned && (about.st_mode & forbidden) == 0) return OkStatus();
  return Denied(absl::StrFormat(
      "the key %s can be read by others (owner %d, mode %04o): chmod 600 it, and issue a new one "
      "if others have been on this machine",
      path, about.st_uid, about.st_mode & 07777));
}

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

StatusOr<std::string> ReadPemFile(const std::string& path, bool secret) {
  const OpenFile file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) {
    const std::string why = absl::StrFormat("cannot read %s: %s", path, std::strerror(errno));
    if (errno == ENOENT) return NotFound(why + "; `ringwood ca issue` makes it");
    return Refused(why);
  }
  struct stat about {};
  if (fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_size > static_cast<off_t>(kMaxPemFileBytes)) {
    return Invalid(path + " is no small regular file");
  }
  if (secret) RW_RETURN_IF_ERROR(CheckSecret(path, about));
  std::string content(kMaxPemFileBytes, '\0');
  const ssize_t bytes = read(file.get(), content.data(), content.size());
  if (bytes < 0) return Refused(absl::StrFormat("cannot read %s: %s", path, std::strerror(errno)));
  content.resize(static_cast<size_t>(bytes));
  return content;
}

Status WriteWhole(const std::string& path, const std::string& content, int mode) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  const OpenFile file(
      open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  const bool written =
      file.get() >= 0 &&
      write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
      rename(fresh.c_str(), path.c_str()) == 0;
  if (written) return OkStatus();
  const int error = errno;
  unlink(fresh.c_str());
  return Refused(absl::StrFormat("cannot write %s: %s", path, std::strerror(error)));
}

Status WriteIdentity(const std::string& folder, const std::string& authority, const Leaf& leaf) {
  RW_RETURN_IF_ERROR(MakePrivateFolder(folder));
  const Identity files{folder, {}, {}};
  RW_RETURN_IF_ERROR(WriteWhole(files.authority_file(), authority, 0600));
  RW_RETURN_IF_ERROR(WriteWhole(files.key_file(), leaf.key, 0600));
  return ReplaceCertificate(folder, leaf.certificate);
}

Status ReplaceCertificate(const std::string& folder, const std::string& certificate) {
  const Identity files{folder, {}, {}};
  return WriteWhole(files.certificate_file(), certificate, 0600);
}

}  // namespace ringwood
