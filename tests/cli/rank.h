// One of two ranks, as far as its coordinator knows it: a control, and what it is told.
#pragma once

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "client/grpc/control.h"

namespace ringwood {

class Rank {
 public:
  static constexpr double kSeconds = 60;  // for whatever is to come

  explicit Rank(uint32_t number) : number_(number) {}

  void Connect(const std::string& address) { control_ = MakeGrpcControl(address, ""); }
  Control* operator->() { return control_.get(); }
  void Disappear() { control_.reset(); }

  uint32_t number() const { return number_; }
  uint64_t incarnation() const { return number_ + 1; }

  StatusOr<v1::JoinResponse> Join() {
    v1::JoinRequest request;
    request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    request.set_role(v1::ROLE_WORKER);
    request.set_rank(number_);
    request.set_world(2);
    request.set_host("here");
    request.set_incarnation(incarnation());
    request.set_fabric_address("an address");
    return control_->Join(request, Seconds(kSeconds));
  }

  Status Attend(const v1::JoinResponse& joined, double grace = 0) {
    Attendance attendance;
    attendance.epoch = joined.epoch();
    attendance.node = joined.node();
    attendance.incarnation = incarnation();
    attendance.every = Seconds(0.05);
    attendance.grace = Seconds(grace);
    return control_->Attend(attendance, Seconds(kSeconds),
                            [this](const Status& failure, bool recovers) {
                              failure_ = failure;
                              recovers_ = recovers;
                              failed_.Notify();
                            });
  }

  StatusOr<v1::AgreeResponse> Agree(v1::AgreeRequest table, uint64_t epoch) {
    table.set_epoch(epoch);
    table.set_rank(number_);
    table.set_incarnation(incarnation());
    return control_->Agree(table, Seconds(kSeconds));
  }

  StatusOr<v1::Commit> Vote(uint64_t epoch, uint64_t round) {
    v1::VoteRequest vote;
    vote.set_epoch(epoch);
    vote.set_round(round);
    vote.set_rank(number_);
    vote.set_incarnation(incarnation());
    vote.set_digest(77);
    vote.set_weight(number_ + 1);
    return control_->Vote(vote, Seconds(kSeconds));
  }

  bool failed() const { return failed_.HasBeenNotified(); }
  // Waits for it; OK: the epoch did not fail.
  Status Failure() {
    if (!failed_.WaitForNotificationWithTimeout(absl::Seconds(kSeconds))) return OkStatus();
    return failure_;
  }
  bool recovers() const { return recovers_; }  // after Failure

 private:
  const uint32_t number_;
  Status failure_;
  bool recovers_ = false;
  absl::Notification failed_;
  std::unique_ptr<Control> control_;  // last: its callback uses the others
};

}  // namespace ringwood
