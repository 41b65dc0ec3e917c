// A member's tie to its coordinator, which may be killed and started again at the same address:
// what to do when the heartbeat stream ends, and when to give up. Pure: times come in as arguments,
// what to do comes out. For workers and reducers alike.
//
//   attending ──confirmed──▶ attached ──stream broke──▶ lost ──Reattach answered──▶ attending …
//                               │                         │
//                               └── told, refused ──▶ over ◀── refused, or the grace is over
//
// Data plane and round are not touched while the coordinator is away.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

// How long a member looks for a coordinator that is lost: what was asked for, else (negative) half
// a minute in an elastic job and not at all in a fixed one.
Duration CoordinatorGrace(double asked_seconds, bool elastic);

// Whether a call with this code may have ended because the connection did, so that nobody knows
// what the coordinator thinks. The other codes are its answers.
bool MayBeTheConnection(StatusCode code);

class Attachment {
 public:
  enum class Act : uint8_t {
    kNothing,
    kReattach,  // after Pause, call Reattach over a new connection
    kAttend,    // open a heartbeat stream over the connection that answered
    kEnd,       // the epoch is over for this member: why()
  };

  // `coordinator`: "the coordinator at HOST:PORT". With no grace the first loss is the end.
  Attachment(std::string coordinator, Duration grace)
      : coordinator_(std::move(coordinator)), grace_(grace) {}

  // The coordinator has a heartbeat of the stream.
  void Confirmed();
  // A notice says that the epoch has failed.
  Act Told(const Status& failure) { return End(failure); }
  // The heartbeat stream has ended; `connected`: its connection still stands.
  Act StreamEnded(const Status& why, bool connected, TimePoint now);
  // Reattach was answered, or broke.
  Act Answered(const Status& answer);
  // To be asked every now and then while not attached; `connected`: the coordinator is there.
  Act Look(bool connected, TimePoint now);

  bool attached() const { return state_ == State::kAttached; }
  bool lost() const { return lost_.has_value(); }  // until it is attached again, or over
  bool over() const { return state_ == State::kOver; }
  const Status& why() const { return why_; }  // of kEnd
  // Counts the connections that it was attached by.
  uint64_t number() const { return number_; }
  // Before the Reattach that is due: nothing at first, then longer and longer.
  Duration Pause() const;

 private:
  enum class State : uint8_t { kAttending, kAttached, kLost, kOver };
  Act End(const Status& why);

  const std::string coordinator_;
  const Duration grace_;
  State state_ = State::kAttending;
  uint64_t number_ = 0;
  int attempts_ = 0;                  // Reattach calls that broke since it was attached
  std::optional<TimePoint> lost_;     // since when
  std::optional<TimePoint> reached_;  // since when, while lost, it is there again
  Status loss_;                       // what the first sign of it was
  Status why_;
};

}  // namespace ringwood
