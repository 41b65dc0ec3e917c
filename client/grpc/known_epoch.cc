#include "client/grpc/known_epoch.h"

namespace ringwood {

void KnownEpoch::Joined(const v1::JoinRequest& request, const v1::JoinResponse& response) {
  request_.Clear();
  request_.set_epoch(response.epoch());
  request_.set_node(response.node());
  request_.set_incarnation(request.incarnation());
  request_.set_round(response.base_step());
  *request_.mutable_joined() = request;
}

void KnownEpoch::Agreed(const v1::AgreeRequest& request, const v1::AgreeResponse& response) {
  *request_.mutable_table() = request;
  *request_.mutable_table()->mutable_plan() = response.plan();
  request_.set_generation(0);
}

void KnownEpoch::Committed(const v1::Commit& commit) {
  request_.set_round(commit.round());
  *request_.mutable_last() = commit;
  if (!commit.has_plan()) return;
  *request_.mutable_table()->mutable_plan() = commit.plan();
  request_.set_generation(commit.generation());
}

}  // namespace ringwood
