#include "client/replan/adapter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/units.h"

namespace ringwood {

Adapter::Request Adapter::Back() {
  Request request;
  request.reason = absl::StrFormat(
      "the plan before is taken back: by it a step took %s from the first gradient on, by this one "
      "%s",
      FormatSeconds(go_back_->seconds), FormatSeconds(seconds_));
  question_.promised = go_back_->seconds;
  request.plan = std::move(go_back_->plan);
  go_back_.reset();
  return request;
}

Adapter::Request Adapter::Next(size_t rounds) {
  if (go_back_) return Back();
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
      before_ = Ran{question_.plan, seconds_};
      request.plan = std::move(answer->plan);
      request.reason = std::move(answer->reason);
      return request;
    }
    Log(LogLevel::kInfo, "the plan was reviewed: " + answer->reason);
  }
  ++unlooked_;
  rest_ = std::max(0.0, rest_ - 1);
  const bool probe = probe_ && rest_ == 0;
  if (rounds < Profile::kWindow || (!probe && unlooked_ < every_)) {
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
    before_.reset();
    go_back_.reset();
  }
  unlooked_ = 0;
}

void Adapter::Reviewed(const Measured& measured, const std::optional<Probed>& probed,
                       double seconds) {
  const double round = std::max(measured.round_seconds, 1e-9);
  if (!probed) {
    every_ = std::max(kReviewEvery, static_cast<size_t>(seconds / kReviewShare / round));
  }
  seconds_ = measured.round_seconds - OwnSeconds(measured);
  if (probed) rest_ = probed->seconds / kProbeShare / round;
  if (const std::optional<Ran> before = std::exchange(before_, std::nullopt);
      before && seconds_ > (1 + kLeastGain) * before->seconds) {
    go_back_ = before;
    probe_ = false;
    return;
  }
  if (!probed) {
    probe_ = std::abs(Drift(question_.promised, measured)) > kDriftLimit;
    return;
  }
  probe_ = false;
  question_.ring = probed->ring;
  question_.delay = probed->delay;
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
