#include "server/store/service/checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/units.h"

namespace ringwood {
namespace {

constexpr double kProgressSeconds = 5;  // between two lines about a long check
constexpr double kStopSeconds = 5;

Status CheckerStops() { return Unavailable("the store is stopping"); }

}  // namespace

void Checker::FindBase(uint64_t job, const CheckpointStore::Reach& reach,
                       const CheckpointStore::AskParts& ask, const Answer& answer) {
  ++waiting_;
  const bool posted = loop_.Post([this, job, reach, ask, answer] {
    auto base = store_->NewestGood(job, Progress(), reach, ask);
    --waiting_;
    answer(std::move(base));
  });
  if (posted) return;
  --waiting_;
  answer(CheckerStops());
}

void Checker::CheckPart(const CheckpointId& id, uint64_t digest,
                        const std::function<void(const Status&)>& answer) {
  ++waiting_;
  const bool posted = loop_.Post([this, id, digest, answer] {
    const Status found = store_->CheckPart(id, digest, Progress());
    --waiting_;
    answer(found);
  });
  if (posted) return;
  --waiting_;
  answer(CheckerStops());
}

// One task of a checkpoint at a time: whoever saved it waits for what is found.
void Checker::ReadBack(const CheckpointId& id, const Found& found) {
  (void)loop_.PostReserved([this, id, found] {
    ReadBackNow(id, found);
    ReadBackNext({id}, found);
  });
}

void Checker::ReadBackNext(std::set<CheckpointId> tried, const Found& found) {
  (void)loop_.PostReserved([this, tried = std::move(tried), found]() mutable {
    auto left = store_->Unread();
    if (!left.ok() || stopping_) return;
    std::erase_if(*left, [&](const CheckpointId& id) { return tried.contains(id); });
    const auto newest = std::max_element(left->begin(), left->end());
    if (newest == left->end()) return;
    ReadBackNow(*newest, found);
    tried.insert(*newest);
    ReadBackNext(std::move(tried), found);
  });
}

void Checker::ReadBackNow(const CheckpointId& id, const Found& found) {
  const Status status = store_->ReadBack(id, Progress());
  if (!stopping_) found(id, status);
}

void Checker::Stop() {
  stopping_ = true;
  (void)loop_.Call([] { return OkStatus(); }, Seconds(kStopSeconds));
}

ReadProgress Checker::Progress() {
  return [this, next = Now() + Seconds(kProgressSeconds)](const CheckpointId& id, uint64_t done,
                                                          uint64_t all) mutable -> Status {
    if (stopping_) return CheckerStops();
    if (waiting_ == 0) return OkStatus();
    if (checked_) checked_(done, all);
    if (Now() < next) return OkStatus();
    next = Now() + Seconds(kProgressSeconds);
    Log(LogLevel::kWarning,
        absl::StrFormat("checking the checkpoint of step %d before the job resumes: %s of %s",
                        id.step, FormatBytes(static_cast<double>(done)),
                        FormatBytes(static_cast<double>(all))));
    return OkStatus();
  };
}

}  // namespace ringwood
