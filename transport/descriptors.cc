#include "transport/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/files/descriptors.h"

namespace ringwood {
namespace {

constexpr uint64_t kOthers = 128;  // checkpoints, loaders, logs: what the process opens besides

}  // namespace

StatusOr<DescriptorRoom> RoomFor(const DescriptorLimits& now, const ConnectionNeed& need) {
  const uint64_t others = now.open + kOthers;
  const uint64_t needed = others + need.needed * need.each;
  if (needed > std::max(now.soft, now.hard)) {
    return Refused(absl::StrFormat(
        "%d peers need %d descriptors each, %d are open and %d are left for everything else: %d in "
        "all, and this process may open %d (ulimit -Hn): raise the hard limit",
        need.needed, need.each, now.open, kOthers, needed, now.hard));
  }
  const uint64_t wanted = std::min(now.hard, others + need.wanted * need.each);
  const uint64_t soft = std::max(now.soft, wanted);
  return DescriptorRoom{soft, static_cast<size_t>((soft - std::min(soft, others)) / need.each)};
}

StatusOr<size_t> ReserveConnections(const ConnectionNeed& need) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return need.wanted;  // the kernel says it later
  RW_ASSIGN_OR_RETURN(const DescriptorRoom room,
                      RoomFor({CountDescriptors(), limit.rlim_cur, limit.rlim_max}, need));
  RW_RETURN_IF_ERROR(RaiseDescriptorLimit(room.soft));
  return room.connections;
}

Status NoRoomFor(const std::string& peer, size_t connections) {
  return Refused(absl::StrFormat(
      "no descriptor is left for a connection to %s: this process has %d connections on the data "
      "plane, as many as its limit of open files allows (ulimit -Hn): raise the hard limit",
      peer, connections));
}

}  // namespace ringwood
