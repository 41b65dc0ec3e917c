#include "server/job_follower.h"

#include <grpcpp/grpcpp.h>

#include <set>

#include "base/log.h"
#include "base/random.h"
#include "jobs/job_register.h"
#include "proto/call.h"
#include "proto/job_token.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "server/deployed_job.h"
#include "server/job_host.h"

namespace ringwood {
namespace {

constexpr double kAskSeconds = 0.25;    // between two questions: a job waits so long for its start
constexpr double kAnswerSeconds = 2;    // for one
constexpr double kGoodbyeSeconds = 60;  // for all reducers to leave

}  // namespace

JobFollower::JobFollower(const ServerOptions& options)
    : options_(options),
      stub_(v1::Deployment::NewStub(OpenChannel(options.coordinator, OwnConnection().Arguments(),
                                                {options.token, options.credentials}))),
      loop_("jobs") {
  loop_.Post([this] { LookOn(); });
}

JobFollower::~JobFollower() {
  (void)loop_.Call([this] { return reducers_.clear(), OkStatus(); }, Seconds(kGoodbyeSeconds));
}

void JobFollower::LookOn() {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(kAnswerSeconds)));
  v1::JobsResponse jobs;
  const grpc::Status status = stub_->Jobs(&context, v1::JobsRequest(), &jobs);
  // While it is away the reducers look for it by themselves.
  if (status.ok()) {
    Follow(jobs);
  } else if (reached_) {
    Log(LogLevel::kWarning, "cannot ask the deployment at " + options_.coordinator +
                                " for its jobs, and go on trying: " + status.error_message());
  }
  reached_ = status.ok();
  loop_.After(Seconds(kAskSeconds), [this] { LookOn(); });
}

void JobFollower::Follow(const v1::JobsResponse& jobs) {
  std::set<std::string> open;
  for (const v1::DeployedJob& job : jobs.jobs()) {
    if (job.phase() != PhaseName(JobRegister::Phase::kOpen)) continue;
    open.insert(job.name());
    if (reducers_.contains(job.name())) continue;
    SetLogLabel("job " + job.name());
    const auto own = options_.job_limits.find(job.name());
    JobLimits limits;
    limits.memory_bytes = options_.max_memory_bytes;
    ServerOptions options =
        OptionsOfJob(options_, job.name(), own == options_.job_limits.end() ? limits : own->second);
    options.token = ServersTokenOf(options.token);
    reducers_[job.name()] =
        MakeReducer(options, options_.coordinator, Unpredictable() | 1, [](const Status&) {});
    Log(LogLevel::kInfo, "serves as a reducer");
    SetLogLabel("");
  }
  std::erase_if(reducers_, [&](const auto& each) { return !open.contains(each.first); });
}

}  // namespace ringwood
