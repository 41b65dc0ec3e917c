#include "jobs/job_register.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ringwood {
namespace {

constexpr double kBurstSeconds = 2;  // of the calls of which a job may make so many at once

Status Busy(const std::string& job, const char* what) {
  return Unavailable(absl::StrFormat("the job %s is being %s: ask again", job, what));
}

}  // namespace

const char* PhaseName(JobRegister::Phase phase) {
  switch (phase) {
    case JobRegister::Phase::kOpening:
      return "opening";
    case JobRegister::Phase::kOpen:
      return "open";
    case JobRegister::Phase::kClosing:
      return "closing";
    case JobRegister::Phase::kBroken:
      return "broken";
  }
  return "";
}

const JobLimits& JobRegister::LimitsOf(const std::string& job) const {
  const auto own = options_.own_limits.find(job);
  return own == options_.own_limits.end() ? options_.limits : own->second;
}

StatusOr<Duration> JobRegister::Turn(const std::string& name, TimePoint now) {
  if (!IsOpen(name)) return Duration::zero();  // Call says what to do
  Job& job = jobs_.at(name);
  const JobLimits& limits = LimitsOf(name);
  const double rate = limits.calls_per_second;
  job.allowance =
      std::min(kBurstSeconds * rate, job.allowance + ToSeconds(now - job.allowance_at) * rate);
  job.allowance_at = now;
  if (1 - job.allowance > static_cast<double>(limits.open_calls)) {
    ++job.refused;
    return Exhausted(absl::StrFormat(
        "%d calls of the job %s wait for their turn, at %.0f a second: make fewer, or have its "
        "limit raised (calls= in --job-limits)",
        limits.open_calls, name, rate));
  }
  job.allowance -= 1;
  if (job.allowance >= 0) return Duration::zero();
  ++job.delayed;
  return Seconds(-job.allowance / rate);
}

JobRegister::Answer JobRegister::Call(const std::string& name, bool of_server, TimePoint now) {
  auto found = jobs_.find(name);
  if (found != jobs_.end() && found->second.phase == Phase::kBroken &&
      now - found->second.since >= Seconds(kBrokenSeconds)) {
    jobs_.erase(found);
    found = jobs_.end();
  }
  if (found == jobs_.end()) {
    if (!of_server) return Begin(name, now);
    return {Verdict::kWait,
            Unavailable(absl::StrFormat("the job %s is not open: none of its ranks came", name))};
  }
  Job& job = found->second;
  switch (job.phase) {
    case Phase::kOpening:
      return {Verdict::kWait, Busy(name, "opened")};
    case Phase::kClosing:
      return {Verdict::kWait, Busy(name, "closed")};
    case Phase::kBroken:
      ++job.refused;
      return {Verdict::kRefuse, Annotate(job.why, "the job " + name + " cannot be opened")};
    case Phase::kOpen:
      break;
  }
  return LetIn(name, &job, of_server, now);
}

JobRegister::Answer JobRegister::Begin(const std::string& name, TimePoint now) {
  if (jobs_.size() >= options_.most_jobs && !MakeRoom(now)) {
    return {Verdict::kRefuse,
            Exhausted(absl::StrFormat("no place for the job %s: %d jobs are open here, the most "
                                      "that this deployment takes (--jobs); try again when one has "
                                      "ended",
                                      name, jobs_.size()))};
  }
  if (jobs_.size() >= options_.most_jobs) return {Verdict::kWait, Busy(name, "given a place")};
  Job& job = jobs_[name];
  job.since = job.last_call = job.allowance_at = now;
  job.allowance = kBurstSeconds * LimitsOf(name).calls_per_second;
  return {Verdict::kOpen, OkStatus()};
}

// The broken one, or the one that was idle longest, is given up for another. False: all are in use.
bool JobRegister::MakeRoom(TimePoint now) {
  const auto broken = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& each) {
    return each.second.phase == Phase::kBroken;
  });
  if (broken != jobs_.end()) {
    jobs_.erase(broken);
    return true;
  }
  Job* idlest = nullptr;
  for (auto& [name, job] : jobs_) {
    if (job.phase == Phase::kClosing) return true;  // a place is about to be free
    const bool idle = job.phase == Phase::kOpen && job.waking_calls == 0 && job.last_call < now &&
                      now >= job.held_until;
    if (idle && (idlest == nullptr || job.last_call < idlest->last_call)) idlest = &job;
  }
  if (idlest == nullptr) return false;
  idlest->last_call = TimePoint::min();  // Close finds it
  return true;
}

JobRegister::Answer JobRegister::LetIn(const std::string& name, Job* job, bool of_server,
                                       TimePoint now) {
  if (job->open_calls >= LimitsOf(name).open_calls) {
    ++job->refused;
    return {Verdict::kRefuse,
            Exhausted(absl::StrFormat("the job %s has %d calls open, as many as it may: end some, "
                                      "or have its limit raised (open= in --job-limits)",
                                      name, job->open_calls))};
  }
  ++job->calls;
  ++job->open_calls;
  if (!of_server) {
    ++job->waking_calls;
    job->last_call = now;
  }
  return {Verdict::kGo, OkStatus()};
}

void JobRegister::Left(const std::string& name, bool of_server, TimePoint now) {
  Job& job = jobs_.at(name);
  RW_CHECK(job.open_calls > 0);
  --job.open_calls;
  if (of_server) return;
  --job.waking_calls;
  job.last_call = std::max(job.last_call, now);
}

void JobRegister::Opened(const std::string& name, const Status& status, TimePoint now,
                         Duration held) {
  Job& job = jobs_.at(name);
  job.phase = status.ok() ? Phase::kOpen : Phase::kBroken;
  job.why = status;
  job.since = job.last_call = now;
  job.held_until = now + held;
}

std::vector<std::string> JobRegister::Close(TimePoint now) {
  std::vector<std::string> closing;
  for (auto& [name, job] : jobs_) {
    if (job.phase != Phase::kOpen || job.waking_calls > 0 || now < job.held_until) continue;
    const bool given_up = job.last_call == TimePoint::min();
    if (!given_up && now - job.last_call < Seconds(options_.idle_seconds)) continue;
    job.phase = Phase::kClosing;
    job.since = now;
    closing.push_back(name);
  }
  return closing;
}

void JobRegister::Closed(const std::string& name) {
  RW_CHECK(OpenCalls(name) == 0);
  jobs_.erase(name);
}

bool JobRegister::IsIn(const std::string& name, Phase phase) const {
  const auto found = jobs_.find(name);
  return found != jobs_.end() && found->second.phase == phase;
}

uint64_t JobRegister::OpenCalls(const std::string& name) const {
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? 0 : found->second.open_calls;
}

std::vector<JobRegister::Facts> JobRegister::Describe(TimePoint now) const {
  std::vector<Facts> all;
  for (const auto& [name, job] : jobs_) {
    const bool used = job.waking_calls > 0 || job.last_call == TimePoint::min();
    all.push_back({name, job.phase, job.calls, job.refused, job.delayed, job.open_calls,
                   used ? 0 : ToSeconds(now - job.last_call), job.why});
  }
  return all;
}

}  // namespace ringwood
