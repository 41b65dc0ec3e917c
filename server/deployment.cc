#include "server/deployment.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "jobs/store_quota.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "server/deployed_job.h"
#include "server/store/private_folder.h"
#include "server/whereabouts.h"

namespace ringwood {
namespace {

constexpr double kOpenSeconds = 2;       // that a call waits for the job that it opens
constexpr double kLookSeconds = 1;       // between two looks for idle jobs
constexpr int kLooksPerMeasure = 60;     // between two of the stores' sizes
constexpr double kLongOpenSeconds = 60;  // to open the jobs that were open
constexpr double kDrainSeconds = 30;
JobRegister::Options RegisterOf(const ServerOptions& options) {
  JobRegister::Options jobs;
  jobs.most_jobs = static_cast<size_t>(options.jobs);
  jobs.idle_seconds = options.job_idle_seconds;
  jobs.limits.memory_bytes = options.max_memory_bytes;
  jobs.limits.store_bytes = options.max_store_bytes;
  jobs.limits.keep_checkpoints = options.retention.newest;
  jobs.limits.keep_every = options.retention.every;
  jobs.own_limits = options.job_limits;
  return jobs;
}

// While a job's threads are made, and its lines are written.
class Labelled {
 public:
  explicit Labelled(const std::string& job) { SetLogLabel("job " + job); }
  ~Labelled() { SetLogLabel(""); }
};

}  // namespace

Deployment::Deployment(const ServerOptions& options, const std::string& address)
    : options_(options), address_(address), register_(RegisterOf(options)), loop_("jobs") {}

Deployment::~Deployment() {
  (void)loop_.Call([] { return OkStatus(); }, Seconds(kDrainSeconds));
}

StatusOr<std::unique_ptr<Deployment>> Deployment::Create(const ServerOptions& options,
                                                         const std::string& address) {
  std::unique_ptr<Deployment> deployment(new Deployment(options, address));
  if (!options.store.empty()) {
    RW_RETURN_IF_ERROR(PreparePrivateFolder(options.store, "jobs"));
    RW_ASSIGN_OR_RETURN(deployment->lock_, FolderLock::Take(options.store, StorePatience(options)));
  }
  Deployment* const raw = deployment.get();
  raw->loop_.Post([raw] {
    raw->OpenThoseThatWereOpen();
    raw->LookOn();
  });
  // Before anybody is let in, where that does not take for ever.
  (void)raw->loop_.Call([] { return OkStatus(); }, Seconds(kLongOpenSeconds));
  return deployment;
}

std::string Deployment::FolderOf(const std::string& job) const {
  return options_.store.empty() ? "" : FolderOfJob(options_.store, job);
}

ServerOptions Deployment::OptionsOf(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  return OptionsOfJob(options_, job, register_.LimitsOf(job));
}

// A job leaves its address in its folder while it is open.
void Deployment::OpenThoseThatWereOpen() {
  if (options_.store.empty()) return;
  std::error_code error;
  std::filesystem::directory_iterator each(options_.store + "/jobs", error), end;
  for (; !error && each != end; each.increment(error)) {
    const std::string job = each->path().filename();
    std::error_code missing;
    if (!CheckJobName(job).ok() || !std::filesystem::exists(AddressFile(each->path()), missing)) {
      continue;
    }
    {
      absl::MutexLock lock(&mutex_);
      const auto answer = register_.Call(job, false, Now());
      if (answer.verdict != JobRegister::Verdict::kOpen) {
        Log(LogLevel::kWarning, "the job " + job + " was open and is not: " + Message(answer.why));
        continue;
      }
    }
    // Its members look for it: until they had time to find it, it is not idle.
    Open(job, Seconds(ReattachGraceSeconds(OptionsOf(job))));
  }
}

StatusOr<std::unique_ptr<JobHost>> Deployment::OpenHost(const std::string& job) {
  const Labelled label(job);
  const ServerOptions options = OptionsOf(job);
  RW_ASSIGN_OR_RETURN(auto host, JobHost::Open(options, nullptr));
  host->LeaveAddress(address_);
  // It begins no job and keeps none open, which a server's token says.
  host->StartReducer(address_, ServersTokenOf(options.token), [](const Status&) {});
  return host;
}

// On loop_.
void Deployment::Open(const std::string& job, Duration held) {
  StatusOr<std::unique_ptr<JobHost>> host = OpenHost(job);
  Log(host.ok() ? LogLevel::kInfo : LogLevel::kError,
      host.ok() ? "the job " + job + " is open"
                : "the job " + job + " cannot be opened: " + Message(host.status()));
  absl::MutexLock lock(&mutex_);
  register_.Opened(job, host.status(), Now(), held);
  if (host.ok()) hosts_[job] = *std::move(host);
}

StatusOr<Duration> Deployment::TurnOf(std::string_view token) {
  absl::MutexLock lock(&mutex_);
  return register_.Turn(std::string(JobOfToken(token)), Now());
}

StatusOr<std::unique_ptr<Deployment::Place>> Deployment::Enter(std::string_view token) {
  const std::string job(JobOfToken(token));
  if (job.empty()) return Denied("this token names no job");
  const bool of_server = ClaimedRoles(token) == kServerRole;
  absl::MutexLock lock(&mutex_);
  for (;;) {
    if (stopped_) return Unavailable("the server is stopping");
    const JobRegister::Answer answer = register_.Call(job, of_server, Now());
    switch (answer.verdict) {
      case JobRegister::Verdict::kGo:
        return std::make_unique<Place>(this, job, of_server, hosts_.at(job).get());
      case JobRegister::Verdict::kRefuse:
        return answer.why;
      case JobRegister::Verdict::kWait:
        loop_.Post([this] { Look(); });  // who made room is closed at once
        return answer.why;
      case JobRegister::Verdict::kOpen:
        break;
    }
    if (!loop_.Post([this, job] { Open(job); })) return Unavailable("the server is stopping");
    const auto settled = [this, &job]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !register_.IsOpening(job);
    };
    // One call waits for each opening, so that no job can hold gRPC's threads.
    mutex_.AwaitWithTimeout(absl::Condition(&settled), absl::Seconds(kOpenSeconds));
  }
}

void Deployment::Leave(const std::string& job, bool of_server) {
  absl::MutexLock lock(&mutex_);
  register_.Left(job, of_server, Now());
  if (register_.IsClosing(job) && register_.OpenCalls(job) == 0) loop_.Post([this] { Look(); });
}

void Deployment::LookOn() {
  Look();
  Refresh();
  loop_.After(Seconds(kLookSeconds), [this] { LookOn(); });
}

// On loop_.
void Deployment::Look() {
  std::vector<std::string> close;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    close = register_.Close(Now());
  }
  for (const std::string& job : close) Close(job);
  const std::vector<std::string> waiting = std::exchange(closing_, {});
  for (const std::string& job : waiting) Forget(job);
}

// On loop_. Calls that come from now on are told to ask again.
void Deployment::Close(const std::string& job) {
  JobHost* host = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    host = hosts_.at(job).get();
  }
  const Labelled label(job);
  host->StopCoordinator("the job is idle and being closed: ask again");
  host->Stop();
  if (!options_.store.empty()) TakeBackWhereabouts(FolderOf(job), address_);
  Forget(job);
}

// On loop_. If its last call has ended; else that one's end looks again, and other jobs are opened
// meanwhile.
void Deployment::Forget(const std::string& job) {
  std::unique_ptr<JobHost> host;
  {
    absl::MutexLock lock(&mutex_);
    if (register_.OpenCalls(job) > 0) {
      closing_.push_back(job);
      return;
    }
    host = std::move(hosts_.at(job));
    hosts_.erase(job);
    known_.Forget(job);
  }
  host.reset();  // before the job can be opened again, as it holds the stores
  Log(LogLevel::kInfo, "the job " + job + " was idle and is closed");
  absl::MutexLock lock(&mutex_);
  register_.Closed(job);
}

// On loop_, which alone destroys hosts.
void Deployment::Refresh() {
  std::map<std::string, JobHost*> open;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    for (const auto& [job, host] : hosts_) {
      if (register_.IsOpen(job)) open[job] = host.get();
    }
  }
  const bool measures = looks_++ % kLooksPerMeasure == 0;
  for (const auto& [job, host] : open) {
    const StatusOr<v1::StatusResponse> status = host->coordinator().Describe();
    std::optional<uint64_t> bytes;
    bool news = false;
    {
      absl::MutexLock lock(&mutex_);
      news = known_.IsNews(job, status);
    }
    if (measures || news) bytes = BytesBelow(FolderOf(job));
    absl::MutexLock lock(&mutex_);
    known_.Saw(job, status, bytes);
  }
}

v1::JobsResponse Deployment::Describe(std::string_view token) {
  absl::MutexLock lock(&mutex_);
  v1::JobsResponse response = known_.Describe(register_, JobOfToken(token), Now());
  if (JobOfToken(token).empty()) response.set_most_jobs(static_cast<uint32_t>(options_.jobs));
  return response;
}

StatusOr<std::vector<v1::StatusResponse>> Deployment::StatusesOf(std::string_view token) {
  if (JobOfToken(token).empty()) {
    absl::MutexLock lock(&mutex_);
    return known_.Statuses(register_);
  }
  RW_ASSIGN_OR_RETURN(const auto place, Enter(token));
  RW_ASSIGN_OR_RETURN(v1::StatusResponse status, place->host().coordinator().Describe());
  status.set_name(std::string(JobOfToken(token)));
  return std::vector<v1::StatusResponse>{std::move(status)};
}

void Deployment::Stop(const std::string& reason) {
  std::vector<JobHost*> hosts;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  // What the loop does now comes to its end; nothing is opened or closed afterwards.
  (void)loop_.Call([] { return OkStatus(); }, Seconds(kLongOpenSeconds));
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [job, host] : hosts_) hosts.push_back(host.get());
  }
  for (JobHost* host : hosts) host->StopCoordinator(reason);
  for (JobHost* host : hosts) host->Stop();
  if (options_.store.empty()) return;
  absl::MutexLock lock(&mutex_);
  for (const auto& [job, host] : hosts_) TakeBackWhereabouts(FolderOf(job), address_);
}

}  // namespace ringwood
