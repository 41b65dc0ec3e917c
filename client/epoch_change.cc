#include "client/epoch_change.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/units.h"

namespace ringwood {
namespace {

// Between two attempts, when the coordinator has taken this process for lost.
constexpr double kPauseSeconds = 0.05;
// A change that takes longer than most do says what it spent its time on.
constexpr double kSlowSeconds = 0.5;

// What took how long, for the log.
class Laps {
 public:
  void Done(const char* what) {
    const TimePoint now = Now();
    absl::StrAppendFormat(&text_, "%s%s %.1f ms", text_.empty() ? "" : ", ", what,
                          1000 * ToSeconds(now - std::exchange(last_, now)));
  }
  const std::string& text() const { return text_; }

 private:
  TimePoint last_ = Now();
  std::string text_;
};

}  // namespace

Status EpochChange::Run(std::unique_ptr<EpochLink>* link, Calls calls) {
  const TimePoint begun = Now();
  const TimePoint end = begun + Seconds(worker_.options.join_timeout_seconds);
  // The failure of the epoch, if it has one already.
  (*link)->Fail(Aborted(worker_.departures->left().empty() ? "a process was waiting to take part"
                                                           : "others left in order"));
  const std::string why = Message((*link)->status());
  Laps laps;
  for (;;) {
    worker_.connection->Drain();
    laps.Done("drained");
    RW_ASSIGN_OR_RETURN(std::unique_ptr<EpochLink> next, Join(link->get(), calls, end));
    laps.Done("joined");
    const uint64_t before = worker_.steps->step();
    RW_RETURN_IF_ERROR(worker_.steps->Settle(next->joined(), link->get()));
    if (worker_.steps->step() != before) calls.ended = 0;
    RW_RETURN_IF_ERROR(worker_.plan->Detach(true));
    if (worker_.steps->in_doubt()) ForgetDebt(**link);
    worker_.states->ForgetReaches();  // who comes now does not know them
    worker_.departures->EpochOver();
    laps.Done("settled");
    *link = std::move(next);  // the old heartbeats end
    laps.Done("left the old epoch");
    Status running = Connect(link->get(), end);
    laps.Done("connected");
    if (running.ok()) running = Agree(link->get());
    laps.Done("agreed");
    if (worker_.departures->gone()) return running;
    if (running.ok()) break;
    // Nobody has to be named where others left.
    (*link)->Fail(worker_.departures->left().empty() ? (*link)->Named(running) : running);
    if (!(*link)->Recovers() || Now() >= end) return running;
  }
  Say(**link, why, Now() - begun);
  const bool slow = Now() - begun > Seconds(kSlowSeconds);
  Log(slow ? LogLevel::kInfo : LogLevel::kDebug,
      absl::StrFormat("into epoch %d: %s", (*link)->epoch(), laps.text()));
  return OkStatus();
}

void EpochChange::ForgetDebt(const EpochLink& ended) {
  const double norm = worker_.states->Norm();
  worker_.states->Forget();
  if (norm == 0) return;
  Log(LogLevel::kWarning, "residual_dropped",
      absl::StrFormat("rank %d was away while others went on, and may have sent a part of what it "
                      "still owes: the residuals of its sparse tensors, of norm %.3g, are dropped",
                      ended.slot(), norm));
}

StatusOr<std::unique_ptr<EpochLink>> EpochChange::Join(EpochLink* ended, const Calls& calls,
                                                       TimePoint end) {
  v1::Held held = worker_.steps->HeldOf(ended);
  held.set_between_steps(calls.may_follow);
  held.set_calls(calls.ended);
  for (;;) {
    const Duration left = std::max(end - Now(), Seconds(1));
    auto next = EpochLink::Enter(worker_.connection, worker_.options, left, &held);
    const bool again = next.status().code() == StatusCode::kAborted;  // "join again"
    if (next.ok() || !again || Now() >= end) return next;
    Log(LogLevel::kWarning, "epoch_retried", Message(next.status()) + ": it is tried again");
    std::this_thread::sleep_for(std::chrono::duration<double>(kPauseSeconds));
  }
}

Status EpochChange::Connect(EpochLink* link, TimePoint end) {
  worker_.checkpoints->Resume();
  entered_(link);
  RW_RETURN_IF_ERROR(link->Connect(std::max(end - Now(), Seconds(1))));
  RW_RETURN_IF_ERROR(worker_.replanner->MeasureLink(link));
  worker_.state->Begin(link, worker_.steps->receiving());
  return OkStatus();
}

Status EpochChange::Agree(EpochLink* link) {
  if (!worker_.agreement->agreed()) return OkStatus();  // the trainer comes to it
  return worker_.agreement->Agree(worker_.steps->held_step(), worker_.steps->weight(), nullptr,
                                  link);
}

void EpochChange::Say(const EpochLink& link, const std::string& why, Duration took) const {
  const Place& place = link.place();
  const std::string line =
      absl::StrFormat("epoch %d: %s and %s go on after step %d, %.3f s: %s", link.epoch(),
                      FormatCount(place.world, "rank"), FormatCount(place.servers, "server"),
                      worker_.steps->held_step(), ToSeconds(took), why);
  Log(place.rank == 0 ? LogLevel::kInfo : LogLevel::kDebug, line);
}

}  // namespace ringwood
