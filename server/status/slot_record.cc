#include "server/status/slot_record.h"

#include <algorithm>

#include "base/median.h"

namespace ringwood {
namespace {

constexpr double kSilentBeats = 2.5;  // heartbeats that are missing make a member silent

void AddLane(const v1::LaneReport& later, v1::LaneReport* sums) {
  sums->set_groups(sums->groups() + later.groups());
  sums->set_bytes(sums->bytes() + later.bytes());
  sums->set_seconds(sums->seconds() + later.seconds());
  sums->set_predicted_seconds(sums->predicted_seconds() + later.predicted_seconds());
  sums->set_density(later.density());
}

}  // namespace

void AddReport(const v1::MemberReport& later, v1::MemberReport* sums) {
  sums->set_steps(sums->steps() + later.steps());
  sums->set_skipped_steps(sums->skipped_steps() + later.skipped_steps());
  sums->set_repeated_steps(sums->repeated_steps() + later.repeated_steps());
  sums->set_step_seconds(sums->step_seconds() + later.step_seconds());
  sums->set_loading_seconds(sums->loading_seconds() + later.loading_seconds());
  sums->set_forward_seconds(sums->forward_seconds() + later.forward_seconds());
  sums->set_backward_seconds(sums->backward_seconds() + later.backward_seconds());
  sums->set_exposed_seconds(sums->exposed_seconds() + later.exposed_seconds());
  sums->set_vote_seconds(sums->vote_seconds() + later.vote_seconds());
  sums->set_apply_seconds(sums->apply_seconds() + later.apply_seconds());
  sums->set_predicted_step_seconds(sums->predicted_step_seconds() + later.predicted_step_seconds());
  AddLane(later.ring(), sums->mutable_ring());
  AddLane(later.tree(), sums->mutable_tree());
  sums->set_checkpoints(sums->checkpoints() + later.checkpoints());
  sums->set_checkpoint_failures(sums->checkpoint_failures() + later.checkpoint_failures());
  sums->set_checkpoint_seconds(sums->checkpoint_seconds() + later.checkpoint_seconds());
  sums->set_checkpoint_step(std::max(sums->checkpoint_step(), later.checkpoint_step()));
  sums->set_resident_bytes(later.resident_bytes());
  sums->set_peak_resident_bytes(later.peak_resident_bytes());
  sums->set_memory_bound_bytes(later.memory_bound_bytes());
  sums->set_memory_limit_bytes(later.memory_limit_bytes());
}

void SlotRecord::Joined(const v1::RecordedMember& member, uint32_t node, TimePoint now) {
  role_ = member.role();
  slot_ = member.rank();
  host_ = member.host();
  node_ = node;
  heard_ = now;
  left_ = broken_ = false;
  if (processes_ > 0 && incarnation_ == member.incarnation()) return;
  incarnation_ = member.incarnation();
  ++processes_;
  AddReport(report_, &before_);
  report_.Clear();
  samples_.clear();
  late_.clear();
}

// What was sent before the last report may come after it.
void SlotRecord::Take(const v1::MemberReport& report) {
  if (report.steps() >= report_.steps()) report_ = report;
}

void SlotRecord::Heard(StreamId stream, const v1::MemberReport& report, TimePoint now) {
  stream_ = stream;
  heard_ = now;
  broken_ = false;
  Take(report);
  const bool first = samples_.empty();
  if (report_.steps() == 0) return;
  if (!first && report_.steps() == samples_.back().report.steps()) return;
  if (!first && samples_.size() > 1 && now - samples_.back().at < Seconds(kReportPause)) return;
  samples_.push_back({now, report_});
  if (samples_.size() > kReports) samples_.pop_front();
}

void SlotRecord::Left(const v1::MemberReport& report, bool failed) {
  Take(report);
  left_ = !failed;
  broken_ = failed;
}

void SlotRecord::Ended() {
  stream_ = 0;
  left_ = true;
}

void SlotRecord::Broken() {
  stream_ = 0;
  broken_ = !left_;
}

void SlotRecord::Late(double seconds) {
  late_seconds_ += seconds;
  ++late_steps_;
  late_.push_back(seconds);
  if (late_.size() > kLateSteps) late_.pop_front();
}

std::optional<RecentStep> SlotRecord::Recent() const {
  if (samples_.empty()) return std::nullopt;
  const v1::MemberReport& from = samples_.front().report;
  const double steps = static_cast<double>(report_.steps() - from.steps());
  if (steps <= 0) return std::nullopt;
  RecentStep recent;
  recent.step = (report_.step_seconds() - from.step_seconds()) / steps;
  recent.loading = (report_.loading_seconds() - from.loading_seconds()) / steps;
  recent.forward = (report_.forward_seconds() - from.forward_seconds()) / steps;
  recent.backward = (report_.backward_seconds() - from.backward_seconds()) / steps;
  recent.exposed = (report_.exposed_seconds() - from.exposed_seconds()) / steps;
  if (!late_.empty()) recent.late = Median(std::vector<double>(late_.begin(), late_.end()));
  return recent;
}

std::string SlotRecord::State(double silence_seconds, double heartbeat_seconds) const {
  if (left_) return "left";
  if (broken_) return "gone";
  if (!node_) return "away";
  return silence_seconds > kSilentBeats * heartbeat_seconds ? "silent" : "present";
}

v1::SlotState SlotRecord::Describe(TimePoint now, double heartbeat_seconds) const {
  v1::SlotState state;
  state.set_role(role_);
  state.set_slot(slot_);
  state.set_host(host_);
  if (node_) state.set_node(*node_);
  state.set_silence_seconds(std::max(0.0, ToSeconds(now - heard_)));
  state.set_state(State(state.silence_seconds(), heartbeat_seconds));
  state.set_processes(processes_);
  *state.mutable_totals() = before_;
  AddReport(report_, state.mutable_totals());
  if (const auto recent = Recent()) {
    state.set_step_seconds(recent->step);
    state.set_exposed_seconds(recent->exposed);
    state.set_late_seconds(recent->late);
  }
  state.set_total_late_seconds(late_seconds_);
  state.set_late_steps(late_steps_);
  return state;
}

}  // namespace ringwood
