#include "client/connection/progress.h"

#include <algorithm>

namespace ringwood {

void Progress::Entered(uint64_t step) {
  absl::MutexLock lock(&mutex_);
  step_ = step;
  progress_ = 0;
  begun_ = false;
  call_ = 0;
  saves_ = 0;
  group_calls_ = 0;
  ready_.clear();
}

void Progress::Took(uint64_t step) {
  absl::MutexLock lock(&mutex_);
  step_ = step;
}

void Progress::Loaded(uint64_t round) {
  absl::MutexLock lock(&mutex_);
  loaded_ = round;
}

void Progress::TookPart() {
  absl::MutexLock lock(&mutex_);
  begun_ = true;
}

void Progress::GroupCallEnded() {
  absl::MutexLock lock(&mutex_);
  begun_ = true;
  ++group_calls_;
}

void Progress::Calls(uint64_t piece) {
  absl::MutexLock lock(&mutex_);
  call_ = piece;
}

void Progress::SaveBegun() {
  absl::MutexLock lock(&mutex_);
  ++saves_;
}

void Progress::Saving(bool waits) {
  absl::MutexLock lock(&mutex_);
  saving_ = waits;
}

uint64_t Progress::saves() const {
  absl::MutexLock lock(&mutex_);
  return saves_;
}

// The tensor is named where others of the round are ready: before the first nothing is amiss.
void Progress::Fill(v1::Beat* beat) const {
  absl::MutexLock lock(&mutex_);
  beat->set_step(step_);
  beat->set_progress(progress_);
  beat->set_begun(begun_);
  beat->set_loaded(loaded_);
  beat->set_call(call_);
  beat->set_saves(saves_);
  beat->set_saving(saving_);
  beat->set_group_calls(group_calls_);
  const auto missing = std::find(ready_.begin(), ready_.end(), false);
  const bool any = std::find(ready_.begin(), ready_.end(), true) != ready_.end();
  if (any && missing != ready_.end()) {
    beat->set_missing(static_cast<uint32_t>(missing - ready_.begin()));
  }
}

void Progress::PlanAdopted(const Plan&, const std::vector<TensorSpec>& table, uint64_t) {
  absl::MutexLock lock(&mutex_);
  ready_.assign(table.size(), false);
}

void Progress::RoundBegun(uint64_t, TimePoint) {
  absl::MutexLock lock(&mutex_);
  ready_.assign(ready_.size(), false);
}

void Progress::GradientReady(uint64_t, uint32_t tensor, TimePoint) {
  absl::MutexLock lock(&mutex_);
  ++progress_;
  if (tensor < ready_.size()) ready_[tensor] = true;
}

}  // namespace ringwood
