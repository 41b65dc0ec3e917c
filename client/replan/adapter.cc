#include "client/replan/adapter.h"

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
  if (rounds < Profile::kWindow || (!probe_ && unlooked_ < kReviewEvery)) {
    return request;
  }
  unlooked_ = 0;
  request.review = true;
  request.probe = probe_;
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

void Adapter::Reviewed(const Measured& measured, const std::optional<AffineFit>& ring) {
  if (!ring) {
    probe_ = std::abs(Drift(question_.promised, measured)) > kDriftLimit;
    return;
  }
  probe_ = false;
  question_.ring = *ring;
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
