// A reducer's attendance of one epoch: heartbeats up, notices down. Where the coordinator is lost
// the reducer keeps serving, looks for it as long as the grace lasts (proto/attachment.h decides),
// and goes on over a new connection. Everything on the loop that it is given.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/loop.h"
#include "proto/attachment.h"
#include "ringwood/v1/control.pb.h"
#include "server/reducer/control_link.h"

namespace ringwood {

class ReducerAttendance {
 public:
  struct Options {
    std::string coordinator;  // host:port
    Access access;
    Duration silence;  // after which a connection is broken
    Duration grace;
    v1::JoinRequest joined;  // as it joined the epoch
    v1::JoinResponse welcome;
  };
  // They may end the attendance.
  struct Callbacks {
    std::function<void()> confirmed;  // once: the coordinator would notice this reducer's death
    std::function<void(const v1::Notice&)> noticed;
    std::function<void(const Status& why, bool told)> over;  // once; `told`: by the coordinator
  };

  // `loop` outlives it. Call and destroy it on its thread.
  ReducerAttendance(Loop* loop, Options options, Callbacks callbacks);
  ~ReducerAttendance();  // no callback runs afterwards

  // Whether the coordinator was lost in between: it may then say again what it had said.
  bool returned() const { return tie_.number() > 1; }

  // What the plan in force may take at most: the heartbeats say it.
  void BoundMemory(uint64_t bytes) { memory_bound_bytes_ = bytes; }

  // From here on nothing is called, and nobody looks for the coordinator. The heartbeats go on.
  void Quiet() { quiet_ = true; }

  // Tells the coordinator; one that is away when it is back.
  void Leave(bool failed, const std::string& reason);

 private:
  using Act = Attachment::Act;

  // Runs `task` on the loop if this is still there then. Any thread.
  void Later(std::function<void()> task);
  void After(Duration delay, std::function<void()> task);
  void Follow(Act act, bool told);
  void Open();
  void Confirmed();
  void Noticed(const v1::Notice& notice);
  void StreamEnded(const Status& why);
  void Report(v1::MemberReport* report) const;
  void Beat();
  void BeatOn();
  void Reattach();
  void Ask();
  void Look();

  Loop* const loop_;
  const Options options_;
  const Callbacks callbacks_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
  Attachment tie_;
  bool confirmed_ = false;
  bool looking_ = false;
  bool quiet_ = false;
  uint64_t memory_bound_bytes_ = 0;
  TimePoint lost_since_;
  std::optional<v1::LeaveRequest> leave_;  // for a coordinator that is away
  std::unique_ptr<ControlLink> link_;      // a new one for each attempt
};

}  // namespace ringwood
