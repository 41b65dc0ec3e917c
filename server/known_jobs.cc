#include "server/known_jobs.h"

namespace ringwood {
namespace {

// A status names the members of an epoch that has failed, too.
uint32_t RanksOf(const v1::StatusResponse& status) {
  if (status.phase() == "failed") return 0;
  uint32_t ranks = 0;
  for (const v1::Member& member : status.members()) ranks += member.role() == v1::ROLE_WORKER;
  return ranks;
}

}  // namespace

void KnownJobs::Saw(const std::string& job, const StatusOr<v1::StatusResponse>& status,
                    std::optional<uint64_t> store_bytes) {
  Known& known = known_[job];
  if (store_bytes) known.store_bytes = *store_bytes;
  if (status.ok()) known.status = *status;
  known.status.set_name(job);
}

bool KnownJobs::IsNews(const std::string& job, const StatusOr<v1::StatusResponse>& status) const {
  const auto known = known_.find(job);
  if (known == known_.end()) return true;
  return status.ok() && status->last_failure() != known->second.status.last_failure();
}

void KnownJobs::Forget(const std::string& job) { known_.erase(job); }

std::vector<v1::StatusResponse> KnownJobs::Statuses(const JobRegister& jobs) const {
  std::vector<v1::StatusResponse> all;
  for (const auto& [job, known] : known_) {
    if (jobs.IsOpen(job)) all.push_back(known.status);
  }
  return all;
}

v1::JobsResponse KnownJobs::Describe(const JobRegister& jobs, std::string_view only,
                                     TimePoint now) const {
  v1::JobsResponse response;
  for (const JobRegister::Facts& facts : jobs.Describe(now)) {
    if (!only.empty() && facts.name != only) continue;
    v1::DeployedJob& job = *response.add_jobs();
    if (const auto known = known_.find(facts.name); known != known_.end()) {
      const v1::StatusResponse& status = known->second.status;
      job.set_state(status.phase());
      job.set_epoch(status.epoch());
      job.set_step(status.step());
      job.set_steps_per_second(status.steps_per_second());
      job.set_waiting_for(status.waiting_for());
      job.set_last_failure(status.last_failure());
      job.set_ranks(RanksOf(status));
      job.set_store_bytes(known->second.store_bytes);
    }
    job.set_name(facts.name);
    job.set_phase(PhaseName(facts.phase));
    job.set_why(Message(facts.why));
    job.set_calls(facts.calls);
    job.set_refused_calls(facts.refused);
    job.set_delayed_calls(facts.delayed);
    job.set_open_calls(facts.open_calls);
    job.set_idle_seconds(facts.idle_seconds);
    job.set_max_store_bytes(jobs.LimitsOf(facts.name).store_bytes);
    job.set_max_memory_bytes(jobs.LimitsOf(facts.name).memory_bytes);
  }
  return response;
}

}  // namespace ringwood
