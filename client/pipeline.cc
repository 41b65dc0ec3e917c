#include "client/pipeline.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/out_of_memory.h"
#include "plan/wire.h"

namespace ringwood {

Pipeline::Pipeline(const Shell& shell, const Plan& plan, uint32_t generation, size_t tensors,
                   std::vector<std::unique_ptr<Exchange>> exchanges,
                   std::unique_ptr<RoundTotals> totals)
    : shell_(shell),
      plan_(plan),
      generation_(generation),
      exchanges_(std::move(exchanges)),
      totals_(std::move(totals)),
      scheduler_(plan, tensors, shell.windows) {
  RW_CHECK(exchanges_.size() == plan_.groups.size());
  places_.resize(tensors);
  for (size_t g = 0; g < plan_.groups.size(); ++g) {
    const std::vector<uint32_t>& of_group = plan_.groups[g].tensors;
    for (size_t i = 0; i < of_group.size(); ++i) places_[of_group[i]] = {g, i};
  }
}

void Pipeline::Begin(uint64_t round) {
  absl::MutexLock lock(&mutex_);
  scheduler_.Begin();
  round_ = round;
  weight_ = 1;
  unchecked_ = exchanges_.size();
  totalled_ = totals_ == nullptr;
  any_ready_ = false;
  shell_.observer->RoundBegun(round, Now());
}

Status Pipeline::SetWeight(double weight) {
  absl::MutexLock lock(&mutex_);
  if (any_ready_) {
    return Refused("the step is open already: begin_step comes before the first ready");
  }
  weight_ = weight;
  return OkStatus();
}

Status Pipeline::Ready(TableIndex tensor) {
  absl::MutexLock lock(&mutex_);
  const StatusOr<int> complete = scheduler_.Ready(tensor.value);
  any_ready_ |= complete.ok();
  if (complete.ok()) shell_.observer->GradientReady(round_, tensor.value, Now());
  // Wait tells of an exchange that failed, and its caller asks the coordinator who did: told from
  // here the error would only say whose connection broke first. The mark stays: in an elastic job
  // the gradient is exchanged in the next epoch.
  if (!status_.ok()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const int group, complete);
  const auto [owner, place] = places_[tensor.value];
  RW_RETURN_IF_ERROR(exchanges_[owner]->Arrive(place, group >= 0));
  if (group >= 0 && !shell_.compute->Post([this, group] { Pack(group); })) {
    return Internal("compute queue full");
  }
  return OkStatus();
}

bool Pipeline::IsReady(TableIndex tensor) {
  absl::MutexLock lock(&mutex_);
  return scheduler_.IsReady(tensor.value);
}

bool Pipeline::IsOpen() {
  absl::MutexLock lock(&mutex_);
  return any_ready_;
}

std::vector<TableIndex> Pipeline::Missing() {
  absl::MutexLock lock(&mutex_);
  std::vector<TableIndex> missing;
  for (const uint32_t tensor : scheduler_.Missing()) missing.push_back({tensor});
  return missing;
}

// A group passes Ready -> Pack (compute loop) -> Packed -> Start (net loop) -> Exchanged. The lock
// covers only the scheduler's decision which groups may start: exchanges run without it, because
// `packed` and `done` may run inside their calls. After Fail no further group starts, but one that
// has started ends by Exchanged, so its buffers stay until the owner has drained both loops.
void Pipeline::Pack(int group) {
  float weight;
  uint64_t round;
  {
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    weight = static_cast<float>(weight_);
    round = round_;
  }
  shell_.observer->SelectionBegun(round, group, Now());
  const Status begun = CatchOutOfMemory([&] {
    exchanges_[group]->BeginRound(round);
    exchanges_[group]->Pack(
        weight, [this, group, round](const Status& status) { Packed(group, round, status); });
    return OkStatus();
  });
  if (!begun.ok()) Fail(NamedGroup(group, begun));
}

void Pipeline::Packed(int group, uint64_t round, const Status& status) {
  if (!status.ok()) return Fail(NamedGroup(group, status));
  const TimePoint now = Now();
  if (const std::optional<Duration> took = exchanges_[group]->packing()) {
    shell_.observer->SelectionBegun(round, group, now - *took);
  }
  shell_.observer->Selected(round, group, now);
  std::vector<int> start;
  {
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    start = scheduler_.Packed(group);
  }
  Start(start);
  if (exchanges_[group]->checked_when_packed()) Checked();
}

void Pipeline::Start(const std::vector<int>& groups) {
  for (int group : groups) {
    const bool posted = shell_.net->Post([this, group] {
      uint64_t round;
      {
        absl::MutexLock lock(&mutex_);
        if (!status_.ok()) return;
        round = round_;
      }
      shell_.observer->GroupStarted(round, group, Now());
      if (shell_.reached) {
        exchanges_[group]->TellWhatIsReached(shell_.reached(group, round));
      }
      const Status started = CatchOutOfMemory([&] {
        exchanges_[group]->Start(
            shell_.transport, WireRound(generation_, round),
            [this, group, round](Status status) { Exchanged(group, round, status); });
        return OkStatus();
      });
      if (!started.ok()) Fail(NamedGroup(group, started));
    });
    if (!posted) Fail(Internal("network queue full"));
  }
}

void Pipeline::Exchanged(int group, uint64_t round, const Status& status) {
  if (!status.ok()) return Fail(NamedGroup(group, status));
  shell_.observer->GroupEnded(round, group, exchanges_[group]->sent_bytes(), Now());
  if (shell_.exchanged) shell_.exchanged(group, round);
  std::vector<int> start;
  {
    absl::MutexLock lock(&mutex_);
    start = scheduler_.Finished(group);
  }
  Start(start);
  if (!exchanges_[group]->checked_when_packed()) Checked();
}

// Once every group of this rank is looked through, while the last ones are exchanged.
void Pipeline::Checked() {
  {
    absl::MutexLock lock(&mutex_);
    if (--unchecked_ != 0) return;
  }
  StartTotals();
}

void Pipeline::StartTotals() {
  if (totals_ == nullptr) return;
  const bool posted = shell_.net->Post([this] {
    double weight;
    uint64_t round;
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return;
      weight = weight_;
      round = round_;
    }
    const bool non_finite = std::any_of(exchanges_.begin(), exchanges_.end(),
                                        [](const auto& one) { return one->non_finite(); });
    totals_->Start(shell_.transport, WireRound(generation_, round), weight, non_finite,
                   [this](const Status& status) {
                     if (!status.ok()) return Fail(Annotate(status, "the weights of the ranks"));
                     absl::MutexLock lock(&mutex_);
                     totalled_ = true;
                   });
  });
  if (!posted) Fail(Internal("network queue full"));
}

Status Pipeline::NamedGroup(int group, const Status& status) const {
  return Annotate(status, absl::StrFormat("group %d (%s)", group, plan_.groups[group].route));
}

void Pipeline::Fail(const Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = reason;
}

Status Pipeline::Wait(Duration limit) {
  if (exchanges_.empty()) StartTotals();
  absl::MutexLock lock(&mutex_);
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (scheduler_.Done() && totalled_) || !status_.ok();
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&over), absl::FromChrono(limit))) {
    return TimedOut(absl::StrFormat("the exchange did not end in %.0f s", ToSeconds(limit)));
  }
  return status_;
}

RoundSummary Pipeline::Summary() const {
  RoundSummary summary;
  for (size_t g = 0; g < exchanges_.size(); ++g) {
    const Exchange& exchange = *exchanges_[g];
    summary.digest = Combine(summary.digest, exchange.digest());
    summary.non_finite |= exchange.non_finite();
    (plan_.groups[g].route == "ring" ? summary.dense_bytes : summary.sparse_bytes) +=
        exchange.sent_bytes();
  }
  if (totals_ != nullptr) {
    summary.totals = totals_->totals();
    // They began before the results were there. What only a result shows, all ranks see in it.
    summary.totals->skipped |= summary.non_finite;
  }
  return summary;
}

void Pipeline::Apply(double total_weight) {
  for (const auto& exchange : exchanges_) exchange->Apply(total_weight);
}

void Pipeline::Abort() {
  for (const auto& exchange : exchanges_) exchange->Abort();
}

}  // namespace ringwood
