// How the ranks come to the same plan: at the start each sends the coordinator its table and the
// options that must be equal, rank 0 its proposal, and all get one plan; later a plan comes with a
// commit, and all change to it between the same two rounds.
//
// Trainer's thread; keeps nothing of an epoch.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "client/checkpoint/restore.h"
#include "client/connection/epoch_link.h"
#include "client/departures.h"
#include "client/options/options.h"
#include "client/plan_in_force.h"
#include "client/replanner.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

class PlanAgreement {
 public:
  // All outlive this.
  PlanAgreement(const SessionOptions& options, const TensorTable& table, TensorStates* states,
                PlanInForce* plan, Replanner* replanner, Departures* departures)
      : options_(options),
        table_(table),
        states_(states),
        plan_(plan),
        replanner_(replanner),
        departures_(departures) {}

  bool agreed() const { return agreed_; }  // the table is fixed, a plan is in force

  // Collective, once an epoch: from step `committed` on, whose next has `weight`, with the states
  // that `restore` has (null: those that are here). After an error the epoch has failed, unless
  // rank 0 could not make its proposal. Ranks may leave with it: that is Aborted for the others.
  Status Agree(uint64_t committed, double weight, Restore* restore, EpochLink* link);

  // Collective: to the plan that `commit` has. After an error the epoch has failed.
  Status Change(const v1::Commit& commit, EpochLink* link);

 private:
  Status Adopt(const v1::AgreeResponse& response, uint64_t committed, double weight,
               Restore* restore, EpochLink* link);
  Status Install(Plan plan, uint32_t generation, uint64_t committed, double weight,
                 EpochLink* link);

  const SessionOptions& options_;
  const TensorTable& table_;
  TensorStates* const states_;
  PlanInForce* const plan_;
  Replanner* const replanner_;
  Departures* const departures_;
  bool agreed_ = false;
};

}  // namespace ringwood
