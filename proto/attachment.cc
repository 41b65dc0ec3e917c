#include "proto/attachment.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr double kElasticGraceSeconds =
    30;  // a process is started again, on another host if need be
constexpr double kFirstPauseSeconds = 0.05;
constexpr double kLongestPauseSeconds = 0.4;

}  // namespace

Duration CoordinatorGrace(double asked_seconds, bool elastic) {
  return Seconds(asked_seconds >= 0 ? asked_seconds : elastic ? kElasticGraceSeconds : 0);
}

bool MayBeTheConnection(StatusCode code) {
  switch (code) {
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kResourceExhausted:  // too busy to say anything
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

void Attachment::Confirmed() {
  if (state_ != State::kAttending) return;
  state_ = State::kAttached;
  ++number_;
  attempts_ = 0;
  lost_.reset();
  reached_.reset();
}

Attachment::Act Attachment::StreamEnded(const Status& why, bool connected, TimePoint now) {
  if (state_ == State::kOver || state_ == State::kLost) return Act::kNothing;
  const std::string reason = why.ok() ? "no reason given" : Message(why);
  // A connection that still stands means that the coordinator ended the stream and says why: this
  // member came too late for the notice. Where there is time to ask again, only an answer that no
  // connection makes is taken for one.
  const bool answered =
      !why.ok() && (grace_ > Duration::zero() ? !MayBeTheConnection(why.code()) : connected);
  if (answered) return End(Status(why.code(), coordinator_ + " ended the epoch: " + reason));
  const Status loss = Unavailable(coordinator_ + " is lost: " + reason);
  if (grace_ <= Duration::zero()) return End(loss);
  state_ = State::kLost;
  if (lost_) {  // it was there, and is lost again before it was of use
    ++attempts_;
  } else {
    lost_ = now;
    loss_ = loss;
  }
  return Act::kReattach;
}

Attachment::Act Attachment::Answered(const Status& answer) {
  if (state_ != State::kLost) return Act::kNothing;
  if (answer.ok()) {
    state_ = State::kAttending;
    return Act::kAttend;
  }
  if (!MayBeTheConnection(answer.code())) {
    // That the epoch is over (kAborted) is a death for who is in it: of a member, or of the epoch's
    // coordinator.
    const bool over = answer.code() == StatusCode::kAborted;
    return End(Status(over ? StatusCode::kUnavailable : answer.code(),
                      coordinator_ + " came back, and ended the epoch: " + Message(answer)));
  }
  ++attempts_;
  reached_.reset();
  return Act::kReattach;
}

// A coordinator that is there gets the grace once more, in which the others come back to it too.
Attachment::Act Attachment::Look(bool connected, TimePoint now) {
  if (!lost_ || state_ == State::kOver) return Act::kNothing;
  if (!connected) {
    reached_.reset();
  } else if (!reached_) {
    reached_ = now;
  }
  if (now - reached_.value_or(*lost_) < grace_) return Act::kNothing;
  return End(Unavailable(absl::StrFormat(
      "%s and in %g s %s", Message(loss_), ToSeconds(grace_),
      reached_ ? "of being back did not take its members back" : "was not started again")));
}

Attachment::Act Attachment::End(const Status& why) {
  if (state_ == State::kOver) return Act::kNothing;
  state_ = State::kOver;
  why_ = why;
  lost_.reset();
  return Act::kEnd;
}

Duration Attachment::Pause() const {
  if (attempts_ == 0) return Duration::zero();
  const double doubled = kFirstPauseSeconds * (1 << std::min(attempts_ - 1, 10));
  return Seconds(std::min(doubled, kLongestPauseSeconds));
}

}  // namespace ringwood
