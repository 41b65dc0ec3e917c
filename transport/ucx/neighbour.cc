#include "transport/ucx/neighbour.h"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace ringwood {

Status ReadMemory(int pid, uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec local{into.data(), into.size()};
    const iovec remote{reinterpret_cast<void*>(address), into.size()};
    const ssize_t read = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (read < 0 && errno == ESRCH) {
      return Unavailable(absl::StrFormat("process %d on this host is gone", pid));
    }
    if (read <= 0) {
      return Unavailable(absl::StrFormat("read %d bytes of process %d on this host: %s",
                                         into.size(), pid, std::strerror(read < 0 ? errno : EIO)));
    }
    address += static_cast<uint64_t>(read);
    into = into.subspan(static_cast<size_t>(read));
  }
  return OkStatus();
}

bool HasCookie(int pid, uint64_t address, uint64_t cookie) {
  uint64_t found = 0;
  if (pid <= 0 || address == 0) return false;
  return ReadMemory(pid, address, std::as_writable_bytes(std::span(&found, 1))).ok() &&
         found == cookie;
}

NeighbourPayload::~NeighbourPayload() {
  if (settled_ != nullptr) settled_();
}

void NeighbourPayload::Fetch(std::span<std::byte> into, std::function<void(Status)> done) {
  const Status read = ReadMemory(pid_, announcement_.address, into);
  std::exchange(settled_, nullptr)();
  done(read);
}

}  // namespace ringwood
