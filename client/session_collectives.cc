// What all ranks call between two steps.
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/session.h"

namespace ringwood {

// Of an elastic job no rank comes out of a call before all have its result. So who has it and does
// not hear that of all others can be told when it joins again: the least of what they have.
Status Session::CallOfAll(const std::function<Status()>& call) {
  RW_RETURN_IF_ERROR(call());
  if (!elastic_) return OkStatus();
  ++calls_;
  return link_->collectives()->Meet();
}

// A trainer without steps of ours shows by its collectives that the start is over. A call that the
// end of an epoch interrupts, or finds, is not repeated here: the ranks may have been at different
// calls, and only the trainer knows where all of them can meet.
Status Session::Collective(const std::function<Status()>& call) {
  RW_RETURN_IF_ERROR(Usable());
  if (receiving()) return Refused(NoStateYet("exchange"));
  if (!lost_ || !link_->status().ok()) {
    const uint64_t before = calls_;
    const int rank = rank_, world = world_;
    const uint64_t epoch = epoch_;
    Status status = link_->status();
    if (status.ok()) status = CallOfAll(call);
    if (status.ok()) {
      connection_->progress()->TookPart();
      return status;
    }
    if (!Recovers()) return End(status);
    RW_RETURN_IF_ERROR(ChangeEpoch());
    const bool has_result = calls_ > before && link_->joined().calls() >= calls_;
    if (has_result && !receiving()) {  // by the numbers of the ranks that made the call
      rank_ = rank, world_ = world, epoch_ = epoch;
      return OkStatus();
    }
  }
  TakeNumbers(*link_);
  CallsOver();
  RW_RETURN_IF_ERROR(CheckNotAway());
  return Aborted(absl::StrFormat(
      "the members of the job have changed under a collective call: this is rank %d of %d now; "
      "fill its data again and repeat the calls that followed the last finish_step (%s)",
      rank(), world(), why_lost_));
}

Status Session::AllReduce(std::span<std::byte> data, DataType type, ReduceOp op) {
  const bool average = op == ReduceOp::kAverage;
  if (average) RW_RETURN_IF_ERROR(Divide({}, type, 1));  // refused before anything is sent
  RW_RETURN_IF_ERROR(Collective([&] { return link_->collectives()->AllReduce(data, type, op); }));
  return average ? Divide(data, type, world()) : OkStatus();
}

Status Session::Broadcast(std::span<std::byte> data, int root) {
  if (root < 0 || root >= world()) {
    return Invalid(absl::StrFormat("broadcast from rank %d in a world of %d", root, world()));
  }
  return Collective([&] { return link_->collectives()->Broadcast(data, root); });
}

Status Session::ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op) {
  const bool average = op == ReduceOp::kAverage;
  if (average) RW_RETURN_IF_ERROR(Divide({}, type, 1));  // refused before anything is sent
  RW_RETURN_IF_ERROR(
      Collective([&] { return link_->collectives()->ReduceScatter(data, type, op); }));
  if (!average) return OkStatus();
  const Range share = CutEvenly(data.size() / SizeOf(type), world())[rank()];
  return Divide(data.subspan(share.begin * SizeOf(type), share.count * SizeOf(type)), type,
                world());
}

Status Session::AllGather(std::span<std::byte> data, DataType type) {
  return Collective([&] { return link_->collectives()->AllGather(data, type); });
}

Status Session::Leave(bool leaves) {
  RW_RETURN_IF_ERROR(CheckMayLeave());
  std::vector<uint8_t> said(world());
  said[rank()] = leaves ? 1 : 0;
  RW_RETURN_IF_ERROR(
      AllReduce(std::as_writable_bytes(std::span(said)), DataType::kUInt8, ReduceOp::kMax));
  std::vector<int> leaving;  // known to all now
  for (int rank = 0; rank < world(); ++rank) {
    if (said[rank] != 0) leaving.push_back(rank);
  }
  if (leaving.empty() || leaving.size() == said.size()) return OkStatus();
  const bool same_epoch = epoch() == link_->epoch();  // else a member has died meanwhile
  if (same_epoch) steps_.LetGo(leaving, link_.get());
  if (leaves) return LeaveNow();
  if (same_epoch) RW_RETURN_IF_ERROR(ChangeEpoch());
  TakeNumbers(*link_);
  CallsOver();
  return OkStatus();
}

// Where the epoch has ended before this rank had left, it leaves as the next one begins, unless all
// others do so, too. Before there is a plan it owes nothing.
Status Session::LeaveNow() {
  departures_.LeaveBefore(step() + 1);
  if (agreement_.agreed() && !departures_.gone()) RW_RETURN_IF_ERROR(ChangeEpoch());
  if (departures_.gone() || !agreement_.agreed()) Left();
  return OkStatus();
}

}  // namespace ringwood
