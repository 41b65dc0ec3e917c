#include "client/connection/tally.h"

#include <algorithm>

#include "base/resident.h"

namespace ringwood {
namespace {

// Entries that are sent of all elements, of the groups of one route.
double DensityOf(const Plan& plan, const std::vector<TensorSpec>& table, const char* route) {
  double entries = 0, elements = 0;
  for (const Group& group : plan.groups) {
    if (group.route != route) continue;
    double all = 0;
    for (const uint32_t tensor : group.tensors) all += static_cast<double>(table[tensor].elements);
    elements += all;
    entries += group.k > 0 ? static_cast<double>(group.k) : all;
  }
  return elements > 0 ? entries / elements : 0;
}

void AddLane(const v1::LaneReport& round, v1::LaneReport* sums) {
  sums->set_groups(sums->groups() + round.groups());
  sums->set_bytes(sums->bytes() + round.bytes());
  sums->set_seconds(sums->seconds() + round.seconds());
  sums->set_predicted_seconds(sums->predicted_seconds() + round.predicted_seconds());
}

}  // namespace

Tally::Tally(uint64_t memory_bound_bytes) { sums_.set_memory_bound_bytes(memory_bound_bytes); }

void Tally::Loaded(uint64_t round, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  if (round == round_.number && round_.loaded == TimePoint()) round_.loaded = at;
}

void Tally::CheckpointEnded(uint64_t step, bool complete, Duration took) {
  absl::MutexLock lock(&mutex_);
  if (!complete) return sums_.set_checkpoint_failures(sums_.checkpoint_failures() + 1);
  sums_.set_checkpoints(sums_.checkpoints() + 1);
  sums_.set_checkpoint_seconds(sums_.checkpoint_seconds() + ToSeconds(took));
  sums_.set_checkpoint_step(step);
}

void Tally::Fill(v1::MemberReport* report) const {
  const ResidentMemory memory = ReadResidentMemory();
  absl::MutexLock lock(&mutex_);
  *report = sums_;
  report->set_resident_bytes(memory.bytes);
  report->set_peak_resident_bytes(memory.peak_bytes);
}

std::optional<double> Tally::SinceReady(TimePoint now) const {
  absl::MutexLock lock(&mutex_);
  if (round_.last_ready == TimePoint()) return std::nullopt;
  return std::max(0.0, ToSeconds(now - round_.last_ready));
}

void Tally::PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table, uint64_t) {
  absl::MutexLock lock(&mutex_);
  groups_.clear();
  for (const Group& group : plan.groups) {
    groups_.push_back(
        {group.route == "tree", std::max(0.0, group.end_seconds - group.start_seconds)});
  }
  predicted_seconds_ = plan.predicted_seconds;
  sums_.mutable_ring()->set_density(DensityOf(plan, table, "ring"));
  sums_.mutable_tree()->set_density(DensityOf(plan, table, "tree"));
}

// A round that begins again keeps its moments: what the change of the epoch took is exposed time.
void Tally::RoundBegun(uint64_t round, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  if (round_.number != round || round_.begun == TimePoint()) {
    round_ = {};
    round_.number = round;
    round_.begun = at;
    return;
  }
  round_.ring.Clear();
  round_.tree.Clear();
  round_.ring_time = round_.tree_time = {};
  round_.again = round_.last_ready != TimePoint();
  if (round_.again) sums_.set_repeated_steps(sums_.repeated_steps() + 1);
}

void Tally::GradientReady(uint64_t, uint32_t, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  if (round_.again) return;  // they are marked again, all at once
  if (round_.first_ready == TimePoint()) round_.first_ready = at;
  round_.last_ready = std::max(round_.last_ready, at);
}

void Tally::GroupStarted(uint64_t, uint32_t group, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  if (group < groups_.size()) TimeOf(groups_[group])->Begin(at);
}

void Tally::GroupEnded(uint64_t, uint32_t group, uint64_t sent_bytes, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  if (group >= groups_.size()) return;
  const PlannedGroup& planned = groups_[group];
  v1::LaneReport* const lane = planned.tree ? &round_.tree : &round_.ring;
  lane->set_groups(lane->groups() + 1);
  lane->set_bytes(lane->bytes() + sent_bytes);
  lane->set_seconds(lane->seconds() + ToSeconds(TimeOf(planned)->End(at)));
  lane->set_predicted_seconds(lane->predicted_seconds() + planned.seconds);
}

void Tally::Voted(uint64_t, uint64_t, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  round_.voted = at;
}

void Tally::Committed(uint64_t, bool skipped, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  round_.committed = at;
  round_.skipped = skipped;
}

void Tally::Applied(uint64_t, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  Fold(at);
}

// Each phase ends at its moment, or is empty where the moment did not come or came early: the
// phases add up to the step.
void Tally::Fold(TimePoint end) {
  TimePoint from = round_.begun;
  const auto phase = [&from, end](TimePoint to, double sum) {
    const TimePoint until = std::clamp(to, from, std::max(from, end));
    const double seconds = ToSeconds(until - from);
    from = until;
    return sum + seconds;
  };
  sums_.set_step_seconds(sums_.step_seconds() + ToSeconds(std::max(end, from) - from));
  sums_.set_loading_seconds(phase(round_.loaded, sums_.loading_seconds()));
  sums_.set_forward_seconds(phase(round_.first_ready, sums_.forward_seconds()));
  sums_.set_backward_seconds(phase(round_.last_ready, sums_.backward_seconds()));
  sums_.set_exposed_seconds(phase(round_.voted, sums_.exposed_seconds()));
  sums_.set_vote_seconds(phase(round_.committed, sums_.vote_seconds()));
  sums_.set_apply_seconds(phase(end, sums_.apply_seconds()));
  sums_.set_predicted_step_seconds(sums_.predicted_step_seconds() + predicted_seconds_);
  sums_.set_steps(sums_.steps() + 1);
  sums_.set_skipped_steps(sums_.skipped_steps() + (round_.skipped ? 1 : 0));
  AddLane(round_.ring, sums_.mutable_ring());
  AddLane(round_.tree, sums_.mutable_tree());
  round_ = {};
}

}  // namespace ringwood
