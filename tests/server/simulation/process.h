// What a worker and a reducer have in common: a connection to the coordinator, one call that it
// waits for, a stream of heartbeats. Handlers run while the process lives and is not stopped.
#pragma once

#include <algorithm>
#include <utility>

#include "server/coordinator/event.h"
#include "tests/server/simulation/agenda.h"
#include "tests/server/simulation/coordinators.h"

namespace ringwood::simulation {

class Process;

// What came to pass: a simulation in which nothing happens proves nothing.
struct Counts {
  uint64_t events = 0, commits = 0, epochs = 0, coordinators = 0;
  uint64_t forwarded = 0;   // rounds that a worker applied by the answer to its join
  uint64_t received = 0;    // states
  uint64_t reattached = 0;  // processes
  uint64_t left = 0;        // processes, in order
  uint64_t late = 0;        // processes that were told that another one is late
  uint64_t rollbacks = 0;   // epochs that began from a checkpoint though there was one before
  double slowest = 0;       // simulated seconds from the end of the faults to the next commit

  Counts& operator+=(const Counts& more) {
    events += more.events, commits += more.commits, epochs += more.epochs;
    coordinators += more.coordinators, forwarded += more.forwarded, received += more.received;
    reattached += more.reattached, rollbacks += more.rollbacks;
    left += more.left, late += more.late;
    slowest = std::max(slowest, more.slowest);
    return *this;
  }
};

// What a process may do to the world around it.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  // After so long, if it lives then; when it is stopped meanwhile, when it goes on.
  virtual void After(Process& process, double seconds, Act act) = 0;
  virtual void Send(Process& process, uint64_t shell, Event event) = 0;
  virtual uint64_t NewId(const Process& process) = 0;  // of a call or stream of it
  virtual uint64_t Coordinator() = 0;                  // where one is found now; 0: nowhere
  virtual void Exit(Process& process) = 0;             // it ends by itself
  // Workers: what it adds to a round. OnExchanged comes when all have, and the network allows it.
  virtual void Contribute(Process& worker, uint64_t round, double weight, bool bad) = 0;
  // A state of `epoch` that is at its base, from somebody who has it; 0: nobody.
  virtual uint64_t StateFor(const Process& worker) = 0;
  virtual void Keep(const CheckpointBase& checkpoint, uint64_t state) = 0;
  virtual uint64_t Kept(uint64_t epoch, uint64_t round) = 0;

  virtual Agenda& agenda() = 0;
  virtual Counts& counts() = 0;
  virtual Ledger& ledger() = 0;
  virtual Mistake mistake() = 0;
};

class Process {
 public:
  Process(int index, v1::Role role, uint32_t rank, Surroundings* world)
      : index(index), role(role), rank(rank), world_(*world) {}
  virtual ~Process() = default;

  void Start() {
    incarnation = world_.agenda().Name();
    Reset();
    Join();
    Beat();
  }
  void Die() { incarnation = 0; }
  bool alive() const { return incarnation != 0; }

  // From the network.
  void Answered(CallId call, Answer& answer) {
    if (call != call_) return Stray(call, answer);
    call_ = 0;
    std::visit([this](auto& what) { Take(what); }, answer);
  }
  void Noticed(StreamId stream, const v1::Notice& notice) {
    if (stream == stream_) Take(notice);
  }
  void Closed(StreamId stream) {
    if (stream != stream_) return;
    stream_ = 0;
    if (works_) Rejoin();
  }
  // The connection to this coordinator is gone; so is what was waited for.
  void Lost(uint64_t shell) {
    if (shell != shell_) return;
    Disconnect();
    if (!works_) return JoinLater();
    if (!std::exchange(reattaches_, true)) until_ = world_.agenda().seconds() + kGraceSeconds;
    ReattachLater();
  }
  // The answer does not come: it asks again, where that is the same question.
  void GiveUp() {
    if (call_ == 0 || shell_ == 0 || !MayAskAgain()) return;
    const CallId call = std::exchange(call_, 0);
    reattaches_ ? Reattach() : Again();
    world_.Send(*this, shell_, event::CallGone{call});
  }
  virtual void OnExchanged(uint64_t epoch, uint64_t round, double weight, bool bad) = 0;

  const int index;
  const v1::Role role;
  const uint32_t rank;
  uint64_t incarnation = 0;  // 0: dead
  uint64_t shell() const { return shell_; }
  CallId call() const { return call_; }
  StreamId stream() const { return stream_; }
  uint64_t epoch() const { return epoch_; }
  uint32_t node() const { return node_; }
  bool works() const { return works_; }  // has part in its epoch, which it has not left

 protected:
  virtual void Reset() {
    epoch_ = newest_ = shell_ = call_ = stream_ = 0;
    works_ = reattaches_ = false;
  }
  virtual void Complete(v1::JoinRequest* request) = 0;
  virtual void Take(const v1::JoinResponse& joined) = 0;
  virtual void Take(const v1::AgreeResponse&) {}
  virtual void Take(const v1::Commit&) {}
  virtual void Take(const v1::LeaveResponse&) {}
  virtual void Take(const v1::Notice& notice) = 0;
  virtual void Refused(const Status& status) = 0;
  virtual void Rejoin() = 0;  // its epoch is over
  virtual bool MayAskAgain() const { return !works_; }
  virtual void Again() = 0;  // the call that was given up
  virtual void Stray(CallId, Answer&) {}
  // Of a member that comes back to a coordinator that was started again.
  virtual void Complete(v1::ReattachRequest*) {}
  virtual void Resume() {}  // what it asked before is asked again
  virtual uint64_t step() const { return 0; }
  virtual uint64_t progress() const { return 0; }

  void Disconnect() {
    const uint64_t shell = std::exchange(shell_, 0);
    const StreamId stream = std::exchange(stream_, 0);
    const CallId call = std::exchange(call_, 0);
    if (call != 0) world_.Send(*this, shell, event::CallGone{call});
    if (stream != 0) world_.Send(*this, shell, event::StreamBroken{stream});
  }
  bool Connect() {
    if (shell_ == 0) shell_ = world_.Coordinator();
    return shell_ != 0;
  }
  void Take(const Status& status) {
    if (!reattaches_) return Refused(status);
    world_.agenda().Say("process %d does not re-attach: %s", index, std::string(status.message()));
    status.code() == StatusCode::kAborted ? Rejoin() : ReattachLater();
  }
  void Take(const v1::PullResponse&) {}
  void Take(const v1::ReattachResponse&) {
    world_.agenda().Say("process %d has re-attached", index);
    reattaches_ = false;
    ++world_.counts().reattached;
    stream_ = world_.NewId(*this);
    SendBeat();
    Resume();
  }
  void ReattachLater() {
    world_.After(*this, world_.agenda().Between(0.01, 0.3), [this] { Reattach(); });
  }
  void Reattach() {
    if (!works_ || !reattaches_ || call_ != 0) return;
    if (world_.agenda().seconds() > until_) return Rejoin();
    if (!Connect()) return ReattachLater();
    event::Reattach reattach{world_.NewId(*this), {}};
    reattach.request.set_epoch(epoch_);
    reattach.request.set_node(node_);
    reattach.request.set_incarnation(incarnation);
    *reattach.request.mutable_joined() = joined_;
    Complete(&reattach.request);
    call_ = reattach.call;
    world_.Send(*this, shell_, std::move(reattach));
  }

  // Leaves the epoch, and asks for the next.
  void Join() {
    works_ = reattaches_ = false;
    if (!Connect())
      return world_.After(*this, world_.agenda().Between(0.1, 1), [this] { Retry(); });
    event::Join join{world_.NewId(*this), {}, world_.agenda().Name()};
    v1::JoinRequest& request = join.request;
    request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    request.set_role(role);
    request.set_rank(rank);
    request.set_incarnation(incarnation);
    request.set_newest_epoch_seen(newest_);
    Complete(&request);
    joined_ = request;
    call_ = join.call;
    world_.Send(*this, shell_, std::move(join));
  }
  void Retry() {
    if (!works_ && call_ == 0) Join();
  }
  void JoinLater() {
    works_ = reattaches_ = false;
    world_.After(*this, world_.agenda().Between(0.01, 0.5), [this] { Retry(); });
  }
  // In a new epoch, on a new stream.
  void Enter(const v1::JoinResponse& joined) {
    Ledger& ledger = world_.ledger();
    const v1::EpochRecord* record = ledger.Record(joined.epoch());
    ledger.Expect(record != nullptr && record->base_step() == joined.base_step() &&
                      record->world() == joined.world(),
                  "process %d is told of epoch %d, which is not on disk", index, joined.epoch());
    ledger.Expect(joined.epoch() > newest_, "process %d comes from epoch %d into epoch %d", index,
                  newest_, joined.epoch());
    if (stream_ != 0) world_.Send(*this, shell_, event::StreamBroken{stream_});
    newest_ = epoch_ = joined.epoch();
    node_ = joined.node();
    works_ = true;
    stream_ = world_.NewId(*this);
    SendBeat();
  }

  Surroundings& world_;
  uint64_t shell_ = 0;   // the coordinator's process that it is connected to
  CallId call_ = 0;      // waits for its answer
  StreamId stream_ = 0;  // 0: none
  uint64_t epoch_ = 0;   // the last one that it was active in
  uint64_t newest_ = 0;
  uint32_t node_ = 0;
  bool works_ = false;
  bool reattaches_ = false;  // works, and has no coordinator

 private:
  static constexpr double kGraceSeconds = 8;

  void SendBeat() {
    event::Heartbeat beat{stream_, {}};
    beat.beat.set_epoch(epoch_);
    beat.beat.set_node(node_);
    beat.beat.set_incarnation(incarnation);
    beat.beat.set_step(step());
    beat.beat.set_progress(progress());
    world_.Send(*this, shell_, std::move(beat));
  }
  void Beat() {
    if (stream_ != 0) SendBeat();
    world_.After(*this, 1, [this] { Beat(); });
  }

  v1::JoinRequest joined_;
  double until_ = 0;  // it tries to re-attach
};

class Reducer : public Process {
 public:
  Reducer(int index, uint32_t rank, Surroundings* world)
      : Process(index, v1::ROLE_REDUCER, rank, world) {}
  void OnExchanged(uint64_t, uint64_t, double, bool) override {}

 private:
  void Complete(v1::JoinRequest*) override {}
  void Take(const v1::JoinResponse& joined) override { Enter(joined); }
  void Take(const v1::Notice& notice) override {
    if (notice.has_failure() || notice.has_ended()) Join();
  }
  void Refused(const Status&) override { JoinLater(); }
  void Rejoin() override { Join(); }
  void Again() override { Join(); }
};

}  // namespace ringwood::simulation
