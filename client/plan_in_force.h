// The plan that this worker runs, with its exchanges and pipeline. While there is none (at the
// start, and between two plans) ready calls are kept for the next one.
//
// Ready and Fail from any thread, everything else on the trainer's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/connection/epoch_link.h"
#include "client/pipeline.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "client/updates/update_writer.h"
#include "plan/plan.h"
#include "timeline/observer.h"

namespace ringwood {

class PlanInForce {
 public:
  // All outlive this.
  PlanInForce(TensorTable* table, TensorStates* states, UpdateWriter* updates, Observer* observer)
      : table_(table), states_(states), updates_(updates), observer_(observer) {}

  // The table's, in an order with Ready: refused from the first ready on.
  StatusOr<int> Register(const Tensor& tensor);
  // Refused between ready and the end of the step.
  Status Rebind(int id, void* data);
  Status Ready(int id);

  // Replaces the plan between two rounds, while no callback of the pipeline before is running;
  // carries the tensors' states over and opens `round`. Collective if tensors are on a device.
  // `generation` numbers the plans of an epoch, `weight` is the round's, until Pipeline::SetWeight.
  Status Install(Plan plan, uint32_t generation, uint64_t round, double weight, EpochLink* link);
  Status Start();  // replays the ready calls that came before
  // The epoch is over, its loops are drained, its round is aborted or applied: takes back the
  // tensors' states and leaves no pointer into the epoch. The next Install carries them on. With
  // `keep_ready` the round is exchanged again: the ready calls that came stay for the next Start.
  Status Detach(bool keep_ready = false);
  void End();  // at the end of the session: destroys the pipeline with what it holds

  void Fail(const Status& reason);  // ends the round

  Pipeline* pipeline();                              // from Install on
  const Plan& plan() const { return plan_; }         // empty before Install
  const std::string& text() const { return text_; }  // "" before Install
  std::string route(int id) const;                   // "" before Install and for a wrong id

 private:
  Status OpenDeviceRing(EpochLink* link) const;

  TensorTable* const table_;
  TensorStates* const states_;
  UpdateWriter* const updates_;
  Observer* const observer_;
  Plan plan_;
  std::string text_;

  absl::Mutex mutex_;  // also held while the table grows: Ready looks at it
  std::unique_ptr<Pipeline> pipeline_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> early_ready_ ABSL_GUARDED_BY(mutex_);  // by id, while there is no pipeline
  bool any_early_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ringwood
