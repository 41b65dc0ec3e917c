#include "client/replan/adapter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"

namespace ringwood {

Adapter::Request Adapter::Next(size_t rounds) {
  std::optional<PlanAnswer> answer;
  {
    absl::MutexLock lock(&mutex_);
    if (planning_) return {};
    answer = std::exchange(answer_, std::nullopt);
  }
  Request request;
  if (answer && answer->stage == question_.stage) {
    question_.promised = answer->promised;
    if (answer->plan) {
      request.plan = std::move(answer->plan);
      request.reason = std::move(answer->reason);
      return request;
    }
    Log(LogLevel::kInfo, "the plan was reviewed: " + answer->reason);
  }
  ++unlooked_;
  rest_ = std::max(0.0, rest_ - 1);
  const bool probe = probe_ && rest_ == 0;
  if (rounds < Profile::kWindow || (!probe && unlooked_ < kReviewEvery)) {
    return request;
  }
  unlooked_ = 0;
  request.review = true;
  request.probe = probe;
  return request;
}

void Adapter::Adopted(const Plan& plan, int stage) {
  question_.plan = plan;
  if (std::exchange(question_.stage, stage) != stage) {
    question_.promised = 0;
    probe_ = true;
  }
  unlooked_ = 0;
}

void Adapter::Reviewed(const Measured& measured, const std::optional<Probed>& probed) {
  if (!probed) {
    probe_ = std::abs(Drift(question_.promised, measured)) > kDriftLimit;
    return;
  }
  probe_ = false;
  rest_ = probed->seconds / kProbeShare / std::max(measured.round_seconds, 1e-9);
  question_.ring = probed->ring;
  {
    absl::MutexLock lock(&mutex_);
    planning_ = true;
  }
  const auto plan = [this, question = question_, measured] {
    StatusOr<PlanAnswer> answer = Review(question, measured);
    if (!answer.ok()) {
      Log(LogLevel::kWarning, "no new plan: " + Message(answer.status()));
      answer = PlanAnswer{.promised = measured.round_seconds - OwnSeconds(measured),
                          .reason = "it cannot be improved"};
    }
    absl::MutexLock lock(&mutex_);
    planning_ = false;
    answer->stage = question.stage;
    answer_ = *std::move(answer);
  };
  if (loop_.Post(plan)) return;
  Log(LogLevel::kWarning, "no new plan: planning queue full");
  absl::MutexLock lock(&mutex_);
  planning_ = false;  // the next review tries again
}

}  // namespace ringwood
