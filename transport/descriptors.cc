#include "transport/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr uint64_t kOthers = 128;  // checkpoints, loaders, logs: what the process opens besides

uint64_t CountOpen() {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

StatusOr<uint64_t> SoftLimitFor(const DescriptorLimits& now, size_t peers, size_t each) {
  const uint64_t needed = now.open + peers * each + kOthers;
  if (needed <= now.soft) return now.soft;
  if (needed <= now.hard) return needed;
  return Refused(absl::StrFormat(
      "%d peers need %d descriptors each, %d are open and %d are left for everything else: %d in "
      "all, and this process may open %d (ulimit -Hn): raise the hard limit",
      peers, each, now.open, kOthers, needed, now.hard));
}

Status ReserveDescriptors(size_t peers, size_t each) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return OkStatus();  // then the kernel says it later
  RW_ASSIGN_OR_RETURN(const uint64_t soft,
                      SoftLimitFor({CountOpen(), limit.rlim_cur, limit.rlim_max}, peers, each));
  if (soft == limit.rlim_cur) return OkStatus();
  limit.rlim_cur = soft;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return OkStatus();
  return Refused(absl::StrFormat("cannot raise the limit of open files to %d (ulimit -n)", soft));
}

}  // namespace ringwood
