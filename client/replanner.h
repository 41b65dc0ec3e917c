// The network that plans are made for, and what comes after the first plan. With its votes rank 0
// asks for the next stage of the density warm-up, and in a job that adapts for reviews and for a
// better plan (client/replan/adapter.h): every rank measures its rounds, and after a commit that
// asks for a review all ranks combine their measurements, and probe the network if asked to. Rank 0
// also writes plan and profile to the files that the options name.
//
// Trainer's thread; keeps no state of an epoch.
#pragma once

#include <memory>

#include "base/status.h"
#include "client/connection/epoch_link.h"
#include "client/options/options.h"
#include "client/replan/adapter.h"
#include "client/replan/profile.h"
#include "client/tensor_table.h"
#include "plan/model/planned_network.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

class Replanner {
 public:
  // Both outlive this.
  Replanner(const SessionOptions& options, const TensorTable& table);

  Observer* profile() { return &profile_; }  // observes every round

  // Collective, the first call of an epoch: measures its network, or is told by ranks of the epoch
  // before what they know, where one does: also of the plan, where rank 0 comes without it.
  Status MeasureLink(EpochLink* link);
  // On all ranks between the same two calls: the link's schedules are chosen for that network.
  void TakeDelay(EpochLink* link) const;
  void TakeLink(const MeasuredLink& measured);
  // What plans are made for: what the options say, else what was measured.
  const Network& network() const { return network_; }
  // The plan in force, or of the epoch before. Empty: none was.
  const v1::SavedPlan& before() const { return before_; }

  // `plan`, with its number in the epoch, is in force from the step after `committed` ones.
  void Installed(const Plan& plan, uint32_t generation, uint64_t committed, const Place& place);

  // Rank 0's requests with its vote of `round`; nothing on the others.
  void Ask(uint64_t round, const Place& place, v1::VoteRequest* vote);

  // Collective, between two rounds. With `probe` the network is measured, and all ranks choose
  // their schedules by the measured cost.
  Status AllReduceProfile(bool probe, EpochLink* link);

  void WriteProfile() const;  // at the end, where the options ask for it

 private:
  Status TakeHopCost(EpochLink* link) const;
  Status SharePlan(EpochLink* link);
  PlanInput InputOf(const Place& place) const;
  void TellDelays(const Place& place);
  void SavePlan(const Place& place) const;

  const SessionOptions& options_;
  const TensorTable& table_;
  bool first_ = options_.rank == 0;  // in the present epoch
  Plan plan_;                        // in force
  v1::SavedPlan before_;             // the same, with its tensors
  Network network_;
  MeasuredLink measured_;
  Profile profile_;
  std::unique_ptr<Adapter> adapter_;  // of rank 0; null: the plan stays
};

}  // namespace ringwood
