#include "server/coordinator/gathering/candidates.h"

#include <algorithm>
#include <utility>

namespace ringwood {
namespace {

// The same slot and the same process. What was read from disk has hashes only.
bool WasMember(const v1::EpochRecord& record, const v1::JoinRequest& request,
               const MembershipOptions& options) {
  const auto is = [&](const v1::RecordedMember& member) {
    if (member.role() != request.role() || member.rank() != request.rank()) return false;
    if (member.incarnation() != 0) return member.incarnation() == request.incarnation();
    return options.hash && member.incarnation_hash() == options.hash(request.incarnation());
  };
  return std::any_of(record.members().begin(), record.members().end(), is);
}

bool IsWorker(const Waiting& candidate) { return candidate.request.role() == v1::ROLE_WORKER; }

}  // namespace

const Waiting& FirstOf(const std::vector<Waiting>& candidates) {
  const auto resumes = std::find_if(
      candidates.begin(), candidates.end(),
      [](const Waiting& candidate) { return IsWorker(candidate) && candidate.request.resume(); });
  return resumes != candidates.end() ? *resumes : candidates.front();
}

v1::EpochRecord RecordOf(const std::vector<Waiting>& candidates, uint64_t newest_epoch,
                         bool elastic) {
  for (const Waiting& candidate : candidates) {
    newest_epoch = std::max(newest_epoch, candidate.request.newest_epoch_seen());
  }
  const auto fresh = std::find_if(candidates.begin(), candidates.end(),
                                  [](const Waiting& waiting) { return waiting.fresh_job != 0; });
  const v1::JoinRequest& first = FirstOf(candidates).request;
  v1::EpochRecord record;
  record.set_epoch(newest_epoch + 1);
  record.set_world(
      static_cast<uint32_t>(std::count_if(candidates.begin(), candidates.end(), IsWorker)));
  record.set_elastic(elastic);
  record.set_origin(record.epoch());
  record.set_job(first.job() != 0 ? first.job() : fresh != candidates.end() ? fresh->fresh_job : 0);
  for (const Waiting& candidate : candidates) {
    v1::RecordedMember* recorded = record.add_members();
    recorded->set_role(candidate.request.role());
    recorded->set_rank(candidate.request.rank());
    recorded->set_host(candidate.request.host());
    recorded->set_incarnation(candidate.request.incarnation());
    recorded->set_store_address(candidate.request.store_address());
  }
  return record;
}

// Workers come first in the candidates, so that an index is a node.
Recovery RecoverFrom(const std::vector<Waiting>& candidates, const v1::EpochRecord& last,
                     const MembershipOptions& options) {
  std::vector<Returned> workers;
  for (const Waiting& candidate : candidates) {
    if (!IsWorker(candidate)) continue;
    Returned worker{WasMember(last, candidate.request, options), std::nullopt};
    if (candidate.request.has_held()) worker.held = candidate.request.held();
    workers.push_back(std::move(worker));
  }
  return Recover(last, workers);
}

}  // namespace ringwood
