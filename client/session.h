// One worker's session: tensors, steps, collectives, checkpoints. client/c/session.cc puts it
// behind the C interface; include/ringwood.h says what each call promises.
//
// Ready from any thread; everything else from one thread at a time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/checkpoints.h"
#include "client/connection/connection.h"
#include "client/connection/epoch_link.h"
#include "client/plan_in_force.h"
#include "client/replanner.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "timeline/observers.h"

namespace ringwood {

struct StepResult {
  uint64_t step = 0;  // committed steps, this one included, skipped ones too
  bool skipped = false;
  double total_weight = 0;
  uint64_t dense_bytes = 0;
  uint64_t sparse_bytes = 0;
  uint64_t dense_equivalent_bytes = 0;
};

class Session {
 public:
  static StatusOr<std::unique_ptr<Session>> Open(const SessionOptions& options, Parts parts);
  ~Session();

  // Waits for a checkpoint in flight, then leaves. Once.
  Status Close(const std::string& failure);

  int rank() const { return link_->place().rank; }
  int world() const { return link_->place().world; }
  const Hosts& hosts() const { return link_->place().hosts; }  // of the ranks
  uint64_t epoch() const { return link_->epoch(); }
  uint64_t step() const { return step_; }  // any thread

  StatusOr<int> Register(const Tensor& tensor);
  Status Rebind(int id, float* data);
  Status Agree();
  const Plan& plan() const { return plan_.plan(); }              // empty before Agree
  const std::string& plan_text() const { return plan_.text(); }  // "" before Agree
  // "ring" or "tree", in the present plan; "" before Agree and for an unknown id.
  std::string route(int id) const { return plan_.route(id); }

  Status BeginStep(double weight);
  Status Ready(int id);
  StatusOr<StepResult> FinishStep();
  Status Residual(int id, std::span<float> out) const;

  Status AllReduce(std::span<std::byte> data, DataType type, ReduceOp op, bool average);
  Status Broadcast(std::span<std::byte> data, int root);
  Status ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op, bool average);
  Status AllGather(std::span<std::byte> data, DataType type);

  Status Checkpoint(std::vector<Item> items);
  Status CheckpointWait() { return checkpoints_->Wait(); }
  bool resumed() const { return checkpoints_->restore() != nullptr; }
  StatusOr<uint64_t> RestoreBytes(const std::string& name, bool shared) {
    return checkpoints_->Bytes(name, shared);
  }
  Status RestoreItem(const std::string& name, bool shared, std::span<std::byte> out) {
    return checkpoints_->Read(name, shared, out);
  }

 private:
  explicit Session(const SessionOptions& options)
      : options_(options),
        table_(options_),
        states_(options_, table_),
        replanner_(options_, table_),
        plan_(&table_, &states_, &observers_) {}

  // session_agree.cc
  Status Adopt(const v1::AgreeResponse& response);
  Status Install(Plan plan, uint32_t generation);
  Status Follow(const v1::Commit& commit);
  Status ChangePlan(const v1::Commit& commit);

  Status CheckComplete();
  StatusOr<v1::Commit> Vote(const RoundSummary& summary);
  Status Apply(Pipeline* pipeline, const v1::Commit& commit);
  Status FailStep(const Status& status);
  Status Ended(const Status& status);  // a collective

  const SessionOptions options_;
  std::atomic<uint64_t> step_{0};  // committed; written on the trainer's thread
  uint64_t round_ = 0;
  double weight_ = 1;
  bool begun_ = false;   // begin_step of the present step was called
  bool agreed_ = false;  // the table and the plan are fixed
  std::atomic<bool> closed_{false};
  TensorTable table_;
  TensorStates states_;
  Replanner replanner_;
  std::vector<std::unique_ptr<Observer>> guests_;
  Observers observers_;
  PlanInForce plan_;

  std::unique_ptr<Connection> connection_;
  std::unique_ptr<EpochLink> link_;
  std::unique_ptr<Checkpoints> checkpoints_;
};

}  // namespace ringwood
