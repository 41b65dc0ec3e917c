#include "base/files/descriptors.h"

#include <sys/resource.h>

#include <filesystem>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr uint64_t kToStart = 48;  // a server with a store, or a rank, until it is connected

}  // namespace

uint64_t CountDescriptors() {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

Status RaiseDescriptorLimit(uint64_t soft) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return OkStatus();  // the kernel says it later
  if (soft <= limit.rlim_cur) return OkStatus();
  limit.rlim_cur = soft;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return OkStatus();
  return Refused(absl::StrFormat("cannot raise the limit of open files to %d (ulimit -n)", soft));
}

Status ReserveDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return OkStatus();
  const uint64_t open = CountDescriptors();
  const uint64_t needed = open + kToStart;
  if (needed <= limit.rlim_max) return RaiseDescriptorLimit(needed);
  return Refused(absl::StrFormat(
      "this process may open %d files (ulimit -Hn) and needs %d to start, %d are open now: raise "
      "the hard limit",
      limit.rlim_max, needed, open));
}

}  // namespace ringwood
