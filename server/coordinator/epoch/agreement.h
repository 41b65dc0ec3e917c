// Compares every worker's tensor table and settings; rank 0's plan becomes the plan of all. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/coordinator/event.h"

namespace ringwood {

// Checks whether every member can run this plan on these tensors. The plan is untrusted input.
Status CheckPlan(const v1::Plan& plan,
                 const google::protobuf::RepeatedPtrField<v1::Tensor>& tensors);

class Agreement {
 public:
  // `label(rank)` names a member for the errors.
  using Label = std::function<std::string(uint32_t)>;

  Agreement(uint32_t world, Label label) : world_(world), label_(std::move(label)) {}

  // Adds one worker's table. An error (tables or settings differ, or rank 0's plan cannot run) ends
  // the epoch: it names the tensor or setting, both ranks and both values. `displaced` is the call
  // that the same rank had waiting, or 0.
  Status Add(CallId call, const v1::AgreeRequest& request, CallId* displaced);

  bool CallGone(CallId call);  // with what it brought; false: it did not wait here
  bool Complete() const { return requests_.size() == world_; }
  const v1::AgreeRequest& table() const { return requests_.at(0).request; }
  std::vector<CallId> Calls() const;
  std::vector<uint32_t> Missing() const;  // ranks

 private:
  struct Brought {
    CallId call;
    v1::AgreeRequest request;
  };
  Status Compare(const v1::AgreeRequest& a, const v1::AgreeRequest& b) const;
  Status CompareSettings(const v1::AgreeRequest& a, const v1::AgreeRequest& b) const;

  uint32_t world_;
  Label label_;
  std::map<uint32_t, Brought> requests_;  // by rank
};

}  // namespace ringwood
