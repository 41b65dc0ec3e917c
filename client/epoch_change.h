// What a worker of an elastic job does when its epoch is over: it keeps all that it has, joins the
// next epoch with it and goes on where that begins.
//
//   a member failed, or a step is finished after which a process takes part
//     ▼
//   the data plane is closed, the loops are drained    nothing of the old epoch moves any more
//   Join with what this worker has                     the old heartbeats go on meanwhile
//   the round in doubt is applied or dropped           as the coordinator has decided
//   the tensors' states leave the old plan             so do the ready marks of an open round
//   heartbeats, data plane, plan of the new place      who was to leave before leaves here
//   the plan starts                                    what was ready is exchanged again
//
// Trainer's thread, inside a blocking call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "client/checkpoints.h"
#include "client/connection/epoch_link.h"
#include "client/departures.h"
#include "client/options/options.h"
#include "client/plan_agreement.h"
#include "client/plan_in_force.h"
#include "client/state_exchange.h"
#include "client/step_protocol.h"
#include "client/tensor_states.h"

namespace ringwood {

class EpochChange {
 public:
  // What goes from epoch to epoch; all outlive this.
  struct Worker {
    const SessionOptions& options;
    Connection* connection;
    PlanInForce* plan;
    PlanAgreement* agreement;
    Replanner* replanner;
    Departures* departures;
    StepProtocol* steps;
    Checkpoints* checkpoints;
    TensorStates* states;
    StateExchange* state;
  };

  // `entered` is told of each link as soon as this worker is of its epoch.
  EpochChange(const Worker& worker, std::function<void(EpochLink*)> entered)
      : worker_(worker), entered_(std::move(entered)) {}

  // What the trainer calls between two steps, on all ranks.
  struct Calls {
    bool may_follow = true;  // before the next step is finished
    uint64_t ended = 0;      // since the last one: their results are here
  };

  // Replaces `link`, whose epoch is over, by that of an epoch that runs; when that one ends on the
  // way, by the next: at most for the join timeout. After an error the job is over for this worker.
  // So it is if this worker leaves as an epoch begins (Departures::gone), which is no error.
  Status Run(std::unique_ptr<EpochLink>* link, Calls calls);

 private:
  StatusOr<std::unique_ptr<EpochLink>> Join(EpochLink* ended, const Calls& calls, TimePoint end);
  void ForgetDebt(const EpochLink& ended);
  Status Connect(EpochLink* link, TimePoint end);
  Status Agree(EpochLink* link);
  void Say(const EpochLink& link, const std::string& why, Duration took) const;

  const Worker worker_;
  const std::function<void(EpochLink*)> entered_;
};

}  // namespace ringwood
