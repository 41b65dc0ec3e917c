// What a worker knows of the epoch that it is in, for a coordinator that was started again: as it
// joined, the plan in force, and the last commit that it heard of.
#pragma once

#include "ringwood/v1/control.pb.h"

namespace ringwood {

class KnownEpoch {
 public:
  void Joined(const v1::JoinRequest& request, const v1::JoinResponse& response);
  void Agreed(const v1::AgreeRequest& request, const v1::AgreeResponse& response);
  // A round counts from here on as applied: nothing but this process's end can come in between, and
  // the others must not vote on it again.
  void Committed(const v1::Commit& commit);

  const v1::ReattachRequest& request() const { return request_; }

 private:
  v1::ReattachRequest request_;
};

}  // namespace ringwood
