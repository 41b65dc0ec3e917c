#include "server/coordinator/etcd/election.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ringwood {
namespace {

constexpr double kShareOfFailureTimeout = 0.6;
constexpr int64_t kLeastLeaseSeconds = 3;
constexpr double kMarginShare = 0.1;      // of a lease
constexpr double kRenewalsPerLease = 12;  // one that is lost or late costs nothing
constexpr double kLookSeconds = 0.2;      // between two looks at the leader's key, or two tries
constexpr double kPatienceSeconds = 3;    // for an answer while nothing is at stake

}  // namespace

int64_t LeaseSeconds(double failure_timeout_seconds) {
  return std::max(kLeastLeaseSeconds, static_cast<int64_t>(std::ceil(kShareOfFailureTimeout *
                                                                     failure_timeout_seconds)));
}

Election::Election(int64_t lease_seconds) : lease_seconds_(lease_seconds) {}

TimePoint Election::Expiry(int64_t seconds, TimePoint sent) const {
  return sent + Seconds(static_cast<double>(seconds) * (1 - kMarginShare));
}

Question Election::Next(TimePoint now) const {
  RW_CHECK(phase_ != Phase::kDeposed);
  const TimePoint at = std::max(now, pause_until_);
  switch (phase_) {
    case Phase::kGranting:
      return {ask::Grant{lease_seconds_}, at, at + Seconds(kPatienceSeconds)};
    case Phase::kCreating:
      return {ask::Create{lease_}, at, valid_until_};
    case Phase::kLeading:
      return {ask::KeepAlive{lease_}, std::min(at, valid_until_), valid_until_};
    default:
      return {ask::Look{}, at, at + Seconds(kPatienceSeconds)};
  }
}

void Election::On(const Answer& answer, TimePoint sent, TimePoint now) {
  if (phase_ == Phase::kDeposed) return;
  pause_until_ = now + Seconds(kLookSeconds);
  std::visit([&](const auto& what) { Handle(what, sent, now); }, answer);
  if (phase_ == Phase::kLeading && now >= valid_until_) {
    Depose("its lease was not renewed in time");
  }
}

void Election::Handle(const answer::Leader& leader, TimePoint, TimePoint now) {
  leader_ = leader.key ? leader.key->address : "";
  if (!leader.key) {
    phase_ = Phase::kGranting;
    pause_until_ = now;
  } else if (lease_ != 0 && leader.key->lease == lease_ && now < valid_until_) {
    phase_ = Phase::kLeading;  // also where the answer to the creation itself was lost
    revision_ = leader.key->revision;
    pause_until_ = now;  // the lease has aged since it was granted
  } else {
    phase_ = Phase::kWatching;
  }
}

void Election::Handle(const answer::Granted& granted, TimePoint sent, TimePoint now) {
  lease_ = granted.lease;
  valid_until_ = Expiry(granted.seconds, sent);
  phase_ = now < valid_until_ ? Phase::kCreating : Phase::kWatching;
  pause_until_ = now;
}

void Election::Handle(const answer::Kept& kept, TimePoint sent, TimePoint now) {
  if (kept.seconds <= 0) return Depose("etcd ended its lease");
  // A renewal never shortens what an earlier one gave.
  valid_until_ = std::max(valid_until_, Expiry(kept.seconds, sent));
  pause_until_ = now + Seconds(static_cast<double>(kept.seconds) / kRenewalsPerLease);
}

void Election::Handle(const answer::None& none, TimePoint, TimePoint now) {
  if (phase_ == Phase::kLeading) {
    if (now >= valid_until_) Depose("its lease could not be renewed: " + none.why);
  } else {
    phase_ = Phase::kWatching;
  }
}

void Election::Depose(const std::string& why) {
  phase_ = Phase::kDeposed;
  reason_ = why;
}

}  // namespace ringwood
