// Follows what is measured with new plans. Every rank measures its rounds; after a commit that asks
// for it all ranks bring together what they measured, and probe the network where that is asked
// too; rank 0 asks for such reviews, and for a new plan when one is better, with its votes
// (client/replan/adapter.h). It also asks for the next stage of the density warm-up, and writes
// plan and profile to the files that the options name.
//
// Trainer's thread; keeps nothing of an epoch.
#pragma once

#include <memory>

#include "base/status.h"
#include "client/connection/collectives.h"
#include "client/connection/connection.h"
#include "client/options/options.h"
#include "client/replan/adapter.h"
#include "client/replan/profile.h"
#include "client/tensor_table.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

class Replanner {
 public:
  // Both outlive this.
  Replanner(const SessionOptions& options, const TensorTable& table)
      : options_(options), table_(table) {}

  Observer* profile() { return &profile_; }  // to be told of every round

  // `plan` is in force from the step after `committed` ones.
  void Installed(const Plan& plan, uint64_t committed, const Place& place);

  // What rank 0 asks for with its vote of `round`.
  void Ask(uint64_t round, v1::VoteRequest* vote);

  // Collective, between two rounds. With `probe` the network is measured, and all ranks choose
  // their schedules by what was found.
  Status AllReduceProfile(bool probe, Connection* connection, Collectives* collectives);

  void WriteProfile() const;  // at the end, where the options ask for it

 private:
  Status TakeHopCost(Connection* connection, Collectives* collectives) const;
  PlanInput AdaptedInput(const Place& place) const;
  void SavePlan(const Place& place) const;

  const SessionOptions& options_;
  const TensorTable& table_;
  Plan plan_;  // in force
  Profile profile_;
  std::unique_ptr<Adapter> adapter_;  // of rank 0; null: the plan stays
};

}  // namespace ringwood
