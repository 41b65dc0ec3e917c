// The question for a job's status, as commands ask it, again and again over one connection; where
// the store names the coordinator, over one to whom it names by then.
#pragma once

#include <memory>

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
  grpc::Status Asked(const Call& call);  // again while that may help, in the same time
  bool Follow();                         // to another coordinator; false: there is none
  Status Explained(const grpc::Status& status) const;
  StatusAsker(Environment environment, StatusQuestion question, std::unique_ptr<Line> line);
  const Environment environment_;
  const StatusQuestion question_;
  std::unique_ptr<Line> line_;
};

}  // namespace ringwood
