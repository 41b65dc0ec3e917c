// A further server of a deployment: asks its coordinator again and again which jobs are open, and
// is a reducer of each.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "ringwood/v1/deployment.grpc.pb.h"
#include "server/reducer/reducer_node.h"
#include "server/server_options.h"

namespace ringwood {

class JobFollower {
 public:
  // `options.coordinator` is the deployment's, `options.token` its secret.
  explicit JobFollower(const ServerOptions& options);
  ~JobFollower();  // leaves all jobs; seconds

 private:
  void LookOn();
  void Follow(const v1::JobsResponse& jobs);

  const ServerOptions options_;
  const std::unique_ptr<v1::Deployment::Stub> stub_;
  std::map<std::string, std::unique_ptr<ReducerNode>> reducers_;  // by job. Touched only on loop_
  bool reached_ = true;  // the last question was answered. Touched only on loop_
  Loop loop_;            // last: its thread uses the others
};

}  // namespace ringwood
