// The votes of one round: it commits when every worker voted with equal digests. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/coordinator/event.h"

namespace ringwood {

class Ballot {
 public:
  using Label = std::function<std::string(uint32_t)>;

  Ballot(uint64_t epoch, uint64_t round, uint32_t world, Label label)
      : epoch_(epoch), round_(round), world_(world), label_(std::move(label)) {}

  // Adds one vote. A repeated vote counts once (`displaced`: the call that waited with it, or 0).
  // An error ends the epoch: a worker that votes twice differently, a weight that is negative or
  // not a number, a request (a new plan, a review) of another rank than 0.
  Status Add(CallId call, const v1::VoteRequest& vote, CallId* displaced);

  // The vote remains, so that the worker's next call finds it. True: it waited here, and is not
  // answered.
  bool CallGone(CallId call);

  bool Complete() const { return votes_.size() == world_; }
  std::vector<uint32_t> Missing() const;  // ranks

  // When complete. A round in which a worker had a NaN or Inf, or in which no rank had a sample,
  // commits as skipped: nothing is applied anywhere. Unequal digests are an error that names the
  // ranks, never a warning (replica identity).
  StatusOr<v1::Commit> Decide() const;
  // An error where some rank has begun checkpoints and another never did: none of them can ever be
  // complete. A rank that misses one, as its state did not fit into memory, is no such case.
  Status CheckSaves() const;
  // An error where the trainers exchange different passes of an update: those of one that makes
  // fewer of them would be averaged with those of the others' next step.
  Status CheckPasses() const;
  const std::string& plan_reason() const;  // why rank 0 asks for a new plan
  std::vector<CallId> Calls() const;       // those still waiting

 private:
  struct Cast {
    CallId call;
    v1::VoteRequest vote;
  };
  // Where the votes say different numbers: the ranks of each, else nothing.
  template <typename Said>
  std::map<uint64_t, std::string> Sides(const Said& said) const;
  Status Divergence() const;

  uint64_t epoch_;
  uint64_t round_;
  uint32_t world_;
  Label label_;
  std::map<uint32_t, Cast> votes_;  // by rank: sums are taken in this order
};

}  // namespace ringwood
