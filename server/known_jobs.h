// What a deployment knows of its open jobs without asking them: the status of each and the size of
// its store, as they were when it last looked. Pure. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "jobs/job_register.h"
#include "ringwood/v1/control.pb.h"
#include "ringwood/v1/deployment.pb.h"

namespace ringwood {

class KnownJobs {
 public:
  // A look at a job. Where its status is an error the one before stays. `store_bytes`: nothing: it
  // was not measured this time.
  void Saw(const std::string& job, const StatusOr<v1::StatusResponse>& status,
           std::optional<uint64_t> store_bytes);
  // Whether this look says what nobody knew: the first of a job, or one that sees a failure.
  bool IsNews(const std::string& job, const StatusOr<v1::StatusResponse>& status) const;
  void Forget(const std::string& job);  // it is closed

  // Of the jobs that `jobs` says are open, by name.
  std::vector<v1::StatusResponse> Statuses(const JobRegister& jobs) const;

  // All jobs of the register, by name, or the one of this name; with what is known of each.
  v1::JobsResponse Describe(const JobRegister& jobs, std::string_view only, TimePoint now) const;

 private:
  struct Known {
    v1::StatusResponse status;
    uint64_t store_bytes = 0;
  };
  std::map<std::string, Known> known_;
};

}  // namespace ringwood
