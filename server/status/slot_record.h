// What the coordinator knows of one slot over a whole job: sums over all processes of the slot, and
// how its last steps went. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/clock.h"
#include "ringwood/v1/control.pb.h"
#include "server/coordinator/event.h"

namespace ringwood {

// The phases of one of its last steps.
struct RecentStep {
  double step = 0, loading = 0, forward = 0, backward = 0, exposed = 0;  // seconds
  double late = 0;
};

class SlotRecord {
 public:
  // A member of the epoch that begins.
  void Joined(const v1::RecordedMember& member, uint32_t node, TimePoint now);
  void Away() { node_.reset(); }  // not in the epoch that begins
  void Heard(StreamId stream, const v1::MemberReport& report, TimePoint now);
  void Left(const v1::MemberReport& report, bool failed);
  void Ended();  // with the job, in order
  // Its heartbeat stream broke; nothing if it has left.
  void Broken();
  void Late(double seconds);  // of a step: after the first rank

  std::optional<uint32_t> node() const { return node_; }
  uint64_t incarnation() const { return incarnation_; }
  StreamId stream() const { return stream_; }
  v1::Role role() const { return role_; }
  uint32_t slot() const { return slot_; }
  bool left() const { return left_; }

  // Means over the last reports, the median of the lateness; none before its second step.
  std::optional<RecentStep> Recent() const;
  v1::SlotState Describe(TimePoint now, double heartbeat_seconds) const;

 private:
  static constexpr size_t kReports = 6;        // that the means are taken over
  static constexpr double kReportPause = 0.5;  // seconds between two of them
  static constexpr size_t kLateSteps = 15;

  void Take(const v1::MemberReport& report);
  std::string State(double silence_seconds, double heartbeat_seconds) const;

  v1::Role role_ = v1::ROLE_UNSPECIFIED;
  uint32_t slot_ = 0;
  std::string host_;
  std::optional<uint32_t> node_;
  uint64_t incarnation_ = 0;
  uint64_t processes_ = 0;
  StreamId stream_ = 0;
  TimePoint heard_;
  bool left_ = false;
  bool broken_ = false;
  v1::MemberReport before_;  // of the slot's earlier processes
  v1::MemberReport report_;  // of the present one
  struct Sample {
    TimePoint at;
    v1::MemberReport report;
  };
  std::deque<Sample> samples_;  // of the present process, in which steps were taken
  std::deque<double> late_;
  double late_seconds_ = 0;
  uint64_t late_steps_ = 0;
};

// `later`'s sums are added to `sums`; what is no sum is taken from it.
void AddReport(const v1::MemberReport& later, v1::MemberReport* sums);

}  // namespace ringwood
