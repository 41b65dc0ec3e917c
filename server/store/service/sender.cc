#include "server/store/service/sender.h"

#include "absl/strings/str_format.h"

namespace ringwood {

Status CheckSender(const v1::EpochRecord& record, uint64_t epoch, uint32_t rank,
                   uint64_t incarnation) {
  if (record.epoch() == 0) {  // who was in this one may be told to join again
    return Unavailable("no epoch runs here yet: its members are awaited");
  }
  if (epoch != record.epoch()) {
    return Aborted(absl::StrFormat("rank %d saves in epoch %d, which is over (now: %d)", rank,
                                   epoch, record.epoch()));
  }
  if (rank >= record.world()) {
    return Invalid(absl::StrFormat("rank %d saves in a world of %d", rank, record.world()));
  }
  if (record.members(static_cast<int>(rank)).incarnation() != incarnation) {
    return Aborted(absl::StrFormat("another process is rank %d of epoch %d", rank, epoch));
  }
  return OkStatus();
}

}  // namespace ringwood
