// The question for a job's status, as commands ask it, again and again over one connection.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/flags/access_flags.h"
#include "launch/hosts.h"
#include "ringwood/v1/control.pb.h"
#include "ringwood/v1/deployment.pb.h"

namespace grpc {
class Status;
}

namespace ringwood {

struct StatusQuestion {
  ServerAccess access;
  double timeout_seconds = 5;
};

class StatusAsker {
 public:
  // Without a store the token is in the environment, or there is none.
  static StatusOr<std::unique_ptr<StatusAsker>> Open(const Environment& environment,
                                                     const StatusQuestion& question);
  ~StatusAsker();

  // Blocks, at most for the question's timeout.
  StatusOr<v1::StatusResponse> Ask();
  // The jobs of a deployment.
  StatusOr<v1::JobsResponse> AskJobs();

 private:
  struct Line;
  template <typename Call>
  grpc::Status Asked(const Call& call) const;  // again while that may help, in the same time
  Status Explained(const grpc::Status& status) const;
  StatusAsker(double timeout_seconds, std::unique_ptr<Line> line);
  const double timeout_seconds_;
  const std::unique_ptr<Line> line_;
};

}  // namespace ringwood
