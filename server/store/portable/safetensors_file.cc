#include "server/store/portable/safetensors_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ringwood {

SafetensorsFile::~SafetensorsFile() { close(descriptor_); }

StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    const std::string message = "cannot read " + path + ": " + std::strerror(errno);
    return errno == ENOENT ? NotFound(message) : Refused(message);
  }
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(path, descriptor));
  RW_RETURN_IF_ERROR(Annotate(file->Load(), path));
  return file;
}

Status SafetensorsFile::Load() {
  struct stat about {};
  if (fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode)) {
    return Refused("it is no regular file");
  }
  const auto size = static_cast<uint64_t>(about.st_size);
  RW_ASSIGN_OR_RETURN(const std::string prefix, Next(std::min(size, kSafetensorsPrefixBytes)));
  RW_ASSIGN_OR_RETURN(const uint64_t header_bytes, SafetensorsHeaderBytes(prefix, size));
  RW_ASSIGN_OR_RETURN(header_, Next(header_bytes));
  const uint64_t data_bytes = size - kSafetensorsPrefixBytes - header_bytes;
  RW_ASSIGN_OR_RETURN(content_, ParseSafetensors(header_, data_bytes));
  return OkStatus();
}

StatusOr<std::string> SafetensorsFile::Next(uint64_t bytes) {
  std::string data(bytes, '\0');
  for (uint64_t at = 0; at < bytes;) {
    const ssize_t got = read(descriptor_, data.data() + at, bytes - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unavailable("cannot read " + path_ + ": " + std::strerror(errno));
    if (got == 0) return Corrupt(path_ + " became shorter while it was read");
    at += static_cast<uint64_t>(got);
  }
  return data;
}

}  // namespace ringwood
