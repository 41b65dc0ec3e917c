// One worker of a job as its trainer sees it: tensors, steps, collectives, checkpoints. It puts
// together what the work is done by: the table of tensors and what is kept of each, the plan in
// force and how ranks agree on it, the protocol of a step, checkpoints, re-planning, and the link
// of the present epoch. client/c/session.cc puts it behind the C interface; include/ringwood.h says
// what each call promises.
//
// Ready from any thread; everything else from one thread at a time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/checkpoints.h"
#include "client/connection/connection.h"
#include "client/connection/epoch_link.h"
#include "client/epoch_change.h"
#include "client/plan_agreement.h"
#include "client/plan_in_force.h"
#include "client/replanner.h"
#include "client/state_exchange.h"
#include "client/step_protocol.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "client/updates/update_reader.h"
#include "client/updates/update_writer.h"
#include "dense/cuda/device_support.h"
#include "timeline/observers.h"

namespace ringwood {

class Session {
 public:
  // Make and Enter.
  static StatusOr<std::unique_ptr<Session>> Open(const SessionOptions& options, Parts parts);
  static StatusOr<std::unique_ptr<Session>> Make(const SessionOptions& options, Parts parts);
  // Waits until all ranks are there. Once, before all other calls but Interrupt.
  Status Enter();
  ~Session();

  // The user stops this rank: the call that waits ends, and only Close follows. Any thread, also
  // while another one is in a call; never waits.
  void Interrupt();

  // Waits for a checkpoint in flight, then leaves. Once.
  Status Close(const std::string& failure);

  // In the present epoch, which only a blocking call of an elastic job changes. Any thread.
  int rank() const { return rank_; }
  int world() const { return world_; }
  int slot() const { return options_.rank; }  // never changes
  uint64_t epoch() const { return epoch_; }
  uint64_t step() const { return steps_.step(); }
  const Hosts& hosts() const { return link_->place().hosts; }  // of the ranks; trainer's thread

  // OK, or why tensors on `device` (-1: any) cannot be used: the network, or what this process
  // lacks. A fixed world of one rank sends nothing, an elastic one may grow.
  Status DeviceSupport(int device) const {
    if (world_ > 1 || elastic_) RW_RETURN_IF_ERROR(connection_->accelerator().ring_refused);
    return FindDeviceSupport("", device);
  }
  StatusOr<int> Register(const Tensor& tensor);
  Status Rebind(int id, void* data);
  Status Agree();
  const Plan& plan() const { return plan_.plan(); }              // empty before Agree
  const std::string& plan_text() const { return plan_.text(); }  // "" before Agree
  // "ring" or "tree", in the present plan; "" before Agree and for an unknown id.
  std::string route(int id) const { return plan_.route(id); }

  void Loaded();  // any thread
  // `pass`: which exchange of the trainer's update this step is, from 1: alike on all ranks of a
  // fixed job, or FinishStep fails and says whose differ. 0: not said.
  Status BeginStep(double weight, uint32_t pass = 0);
  Status Ready(int id);
  // Of an elastic job: the next FinishStep is the last of this worker, and the others go on without
  // it. Only Close follows.
  Status LeaveAfterStep();
  // Of an elastic job, on all ranks between two steps: those that say so leave, and only Close
  // follows; the others take over what they owe, and go on without them in a new epoch. Nothing
  // happens where none says so, or all do. A call to all ranks.
  Status Leave(bool leaves);
  // Some time soon this process has to end: the result of the next step says so on all ranks. Any
  // thread.
  void AskToEnd() { steps_.AskToEnd(); }
  StatusOr<StepResult> FinishStep();
  Status Residual(int id, std::span<float> out) const;

  // Rounds of the update log after the checkpoint that the session started from: they are replayed
  // once all tensors are registered, before the first step.
  uint64_t replays() const { return steps_.replays(); }  // any thread
  // The next of them: writes its averages into the gradients. NotFound: there is none.
  StatusOr<RoundFacts> Replay();
  // Rounds are kept in an update log; in the present epoch by this rank, whose note is kept. Any
  // thread.
  bool logged() const { return logged_; }
  bool logs() const { return updates_.writes(); }
  // What the trainer wants to read back when the step in hand is replayed; kept until the next one.
  Status Note(std::string note);

  Status AllReduce(std::span<std::byte> data, DataType type, ReduceOp op);
  Status Broadcast(std::span<std::byte> data, int root);
  Status ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op);
  Status AllGather(std::span<std::byte> data, DataType type);
  // Of a fixed job. Any thread; its calls, too, while the session lives.
  StatusOr<std::shared_ptr<Communicator>> MakeCommunicator(const std::vector<int>& ranks,
                                                           uint32_t number) {
    return link_->MakeCommunicator(ranks, number);
  }
  void TookPart() { connection_->progress()->TookPart(); }  // in a collective; any thread

  // Of an elastic job: what a worker that comes later gets from those that have it.
  Status RegisterState(const std::string& name, std::span<std::byte> data) {
    return state_.Register(name, data);
  }
  void GiveStateOnRequest(bool on) { state_.OnRequest(on); }
  bool state_wanted() const { return state_.wanted(); }
  bool receiving() const { return steps_.receiving(); }  // until a FinishStep has brought it
  StatusOr<std::span<const std::byte>> ReceivedState(const std::string& name) const {
    return state_.Received(name);
  }

  Status Checkpoint(const std::vector<Item>& items);
  Status CheckpointWait();
  CheckpointProgress checkpoint_progress() const { return checkpoints_->progress(); }  // any thread
  bool resumed() const { return checkpoints_->restore() != nullptr; }
  StatusOr<uint64_t> RestoreBytes(const std::string& name, bool shared) {
    return checkpoints_->Bytes(name, shared);
  }
  Status RestoreItem(const std::string& name, bool shared, std::span<std::byte> out) {
    return checkpoints_->Read(name, shared, out);
  }

 private:
  explicit Session(const SessionOptions& options) : options_(options) {}

  Status Join();                  // the first epoch
  void Entered(EpochLink* link);  // an epoch
  void TakeNumbers(const EpochLink& link);
  // OK, or why the session is over. Any thread; does not wait.
  Status Usable();
  // OK when an epoch runs, which another one may have followed; else the session is over.
  // `finishing`: a step, so that no call to all ranks comes before its end.
  Status Alive(bool finishing = false);
  bool Recovers() { return link_->Recovers() && !steps_.broken(); }
  Status ChangeEpoch(bool finishing = false);
  Status End(const Status& status);
  Status Collective(const std::function<Status()>& call);
  Status CallOfAll(const std::function<Status()>& call);
  void CallsOver() {  // others follow, of a next step or from the first on
    calls_ = 0;
    lost_ = false;
  }
  Status TakeState();
  Status CheckReplayed() const;
  void SayInterval();
  std::string NoStateYet(const char* what) const;
  Status CheckNotAway() const;
  Status CheckMayLeave();
  Status LeaveNow();
  void EndStepOfLeavers();
  void Left();

  // Each lives as long as the session, and keeps nothing of an epoch but what Detach takes out.
  const SessionOptions options_;
  std::atomic<bool> closed_{false};
  std::vector<std::unique_ptr<Observer>> owned_observers_;
  Observers observers_;
  TensorTable table_{options_};
  TensorStates states_{options_, table_};
  Replanner replanner_{options_, table_};
  UpdateWriter updates_;
  PlanInForce plan_{&table_, &states_, &updates_, &observers_};
  Departures departures_{table_, &states_};
  PlanAgreement agreement_{options_, table_, &states_, &plan_, &replanner_, &departures_};
  SaveClock saves_{Now(), 0};
  SkippedSteps skips_{options_, table_, states_};
  bool said_interval_ = false;
  UpdateReader replay_;
  StepProtocol steps_{table_,       &states_,  &plan_,  &agreement_, &replanner_,
                      &departures_, &updates_, &saves_, &skips_,     &observers_};
  StateExchange state_;
  uint64_t calls_ = 0;  // to all ranks since the last step, whose results are here
  bool lost_ = false;   // a member, after some of them
  std::string why_lost_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<EpochChange> change_;
  std::atomic<bool> elastic_{false};
  std::atomic<bool> logged_{false};
  std::atomic<int> rank_{0}, world_{1};
  std::atomic<uint64_t> epoch_{0};
  absl::Mutex mutex_;
  Status ended_ ABSL_GUARDED_BY(mutex_);  // of an elastic job: the session is over

  std::unique_ptr<EpochLink> link_;  // of the present epoch; trainer's thread, but in a fixed job
};

}  // namespace ringwood
