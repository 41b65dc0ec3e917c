#include "server/coordinator/epoch/welcome.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ringwood {
namespace {

// Which rank brings the steps to the update log: one that has the state, as it may have a round of
// the epoch before to log. Of those one beside the store, where there is one: what it logs crosses
// no network.
uint32_t LogWriter(const MembershipOptions& options, const v1::EpochRecord& record,
                   std::vector<uint32_t> able) {
  if (able.empty()) {
    able.resize(record.world());
    std::iota(able.begin(), able.end(), 0);
  }
  for (const uint32_t rank : able) {
    if (record.members(static_cast<int>(rank)).host() == options.host) return rank;
  }
  return able.front();
}

// A holder that is told to apply what it prepared has made no call after it.
uint64_t CallsOfAll(const v1::EpochRecord& record, const Roster& roster,
                    const std::vector<uint32_t>& holders) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const uint32_t holder : holders) {
    const v1::Held& held = roster.member(holder).held();
    least = std::min(least, held.round() == record.base_step() ? held.calls() : 0);
  }
  return holders.empty() ? 0 : least;
}

// Who applies the base without having heard its commit is asked for what those are that heard it.
void AddAsks(const v1::EpochRecord& record, const Roster& roster,
             const std::vector<uint32_t>& holders, v1::JoinResponse* welcome) {
  for (const uint32_t holder : holders) {
    const v1::Held& held = roster.member(holder).held();
    if (held.round() != record.base_step()) continue;
    if (held.checkpoint()) welcome->set_checkpoint(true);
    if (held.ending()) welcome->set_ending(true);
  }
}

}  // namespace

v1::JoinResponse WelcomeTo(uint32_t node, const MembershipOptions& options,
                           const v1::EpochRecord& record, const Roster& roster,
                           const std::vector<uint32_t>& holders) {
  v1::JoinResponse welcome;
  welcome.set_job(record.job());
  welcome.set_epoch(record.epoch());
  welcome.set_node(node);
  welcome.set_base_step(record.base_step());
  welcome.set_has_checkpoint(record.base_epoch() != 0 && !record.from_members());
  welcome.set_base_epoch(record.base_epoch());
  welcome.set_logged_steps(record.logged_steps());
  welcome.set_update_log(options.update_log);
  welcome.set_log_writer(LogWriter(options, record, holders));
  welcome.set_failure_timeout_seconds(options.failure_timeout_seconds);
  welcome.set_heartbeat_seconds(options.heartbeat_seconds);
  welcome.set_elastic(options.elastic);
  welcome.set_world(roster.world());
  if (options.fabric_key) {
    welcome.set_fabric_key(options.fabric_key(record.job(), record.epoch()));
  }
  for (const uint32_t holder : holders) welcome.add_holders(holder);
  welcome.set_calls(CallsOfAll(record, roster, holders));
  AddAsks(record, roster, holders, &welcome);
  roster.AddTo(&welcome);
  return welcome;
}

}  // namespace ringwood
