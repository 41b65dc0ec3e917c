// Many jobs behind one port: each call goes to the job that its token names, which is opened by its
// first call and closed when it was idle for long. What one job does to its limits is refused by
// name; others do not notice. Decisions are JobRegister's.
//
//   gRPC ─▶ guard (tokens) ─▶ Doors (a service each) ─▶ Enter ─▶ the job's own service
//
// A job that is closed has no call left, as each call holds its place in the register until gRPC is
// done with it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "jobs/job_register.h"
#include "ringwood/v1/deployment.pb.h"
#include "server/job_host.h"
#include "server/known_jobs.h"
#include "server/server_options.h"
#include "server/store/folder_lock.h"

namespace ringwood {

class Deployment {
 public:
  // `options` are those of the whole server, with its secret and its store; `address`: where the
  // reducers of this process find it. Opens the jobs that were open when the process before was
  // killed: their members look for them. Refused for a folder that is none of ours, or that other
  // users can write to; and as AwaitLock says it where another deployment has the store.
  static StatusOr<std::unique_ptr<Deployment>> Create(const ServerOptions& options,
                                                      const std::string& address);
  ~Deployment();  // after Stop, when gRPC's server is gone

  // A call's place in its job. Ends with it.
  class Place {
   public:
    Place(Deployment* deployment, std::string job, bool of_server, JobHost* host)
        : deployment_(deployment), job_(std::move(job)), of_server_(of_server), host_(host) {}
    ~Place() { deployment_->Leave(job_, of_server_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    JobHost& host() const { return *host_; }

   private:
    Deployment* const deployment_;
    const std::string job_;
    const bool of_server_;
    JobHost* const host_;
  };

  // How long a call with this token, which was admitted, waits before it may enter: who makes too
  // many is slowed. Exhausted: too many wait. Any thread, at once.
  StatusOr<Duration> TurnOf(std::string_view token);

  // Of a call with this token whose turn has come. Any thread; waits for a job that it opens, for
  // kOpenSeconds at most. Unavailable, with "ask again", where that is not enough.
  StatusOr<std::unique_ptr<Place>> Enter(std::string_view token);

  v1::JobsResponse Describe(std::string_view token);  // any thread, at once
  // The status of the job that the token names, which takes a second at most, or an error; with the
  // deployment's token of all that are open, at once. Any thread.
  StatusOr<std::vector<v1::StatusResponse>> StatusesOf(std::string_view token);

  // Answers all callers of all jobs, and closes reducers and disks.
  void Stop(const std::string& reason);

 private:
  Deployment(const ServerOptions& options, const std::string& address);

  std::string FolderOf(const std::string& job) const;
  ServerOptions OptionsOf(const std::string& job);
  void OpenThoseThatWereOpen();
  StatusOr<std::unique_ptr<JobHost>> OpenHost(const std::string& job);
  void Open(const std::string& job, Duration held = Duration::zero());
  void LookOn();
  void Look();
  void Close(const std::string& job);
  void Forget(const std::string& job);
  void Refresh();
  void Leave(const std::string& job, bool of_server);

  const ServerOptions options_;
  const std::string address_;
  std::unique_ptr<FolderLock> lock_;  // of the store: one deployment at a time has it
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  JobRegister register_ ABSL_GUARDED_BY(mutex_);
  // Of jobs that are open or being closed. Made on loop_, and destroyed there or with this.
  std::map<std::string, std::unique_ptr<JobHost>> hosts_ ABSL_GUARDED_BY(mutex_);
  KnownJobs known_ ABSL_GUARDED_BY(mutex_);  // of those that are open, a second old
  std::vector<std::string> closing_;  // stopped, with calls that have not ended. Touched on loop_
  int looks_ = 0;                     // touched on loop_
  Loop loop_;                         // last: its thread uses the others
};

}  // namespace ringwood
