// The services of a deployment, as gRPC's server has them: each call enters its job, or is refused.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

#include "server/deployment.h"

namespace ringwood {

class DeploymentDoors {
 public:
  explicit DeploymentDoors(Deployment* deployment);
  ~DeploymentDoors();  // after the gRPC server that has them

  std::vector<grpc::Service*> services() const;

  // For the builder of the gRPC server that gets the services: a call's context holds its place.
  static std::unique_ptr<grpc::ContextAllocator> Contexts();

 private:
  std::vector<std::unique_ptr<grpc::Service>> services_;
};

}  // namespace ringwood
