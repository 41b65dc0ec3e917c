#include "client/updates/update_writer.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace ringwood {
namespace {

constexpr double kPauseSeconds = 0.1;  // between two attempts
// A round is on its way while its last group waits for a rank that evaluates. The end of the epoch
// cancels it.
constexpr double kCallSeconds = 3600;
constexpr double kLogSeconds = 2 * kCallSeconds;

}  // namespace

void UpdateWriter::Enter(UpdateClient* client, const RoundName& name) {
  Drain();  // before the client goes: what is left of the epoch before may still ask for it
  CheckBase();
  if (base_ && (restarts_ || client == nullptr)) GiveUpBase();  // the log names the epoch, too
  client_ = nullptr;
  if (client == nullptr) return;
  cancelled_ = false;
  if (loop_ == nullptr) loop_ = std::make_unique<Loop>("rw-updates");
  name_ = name;
  client_ = client;
}

void UpdateWriter::Take(SumOf sum_of, TensorsById tensors) {
  Drain();
  sum_of_ = std::move(sum_of);
  tensors_ = std::move(tensors);
}

// Also what is left of a round that ended before it was logged.
void UpdateWriter::Drain() {
  if (loop_ == nullptr) return;
  (void)loop_->Call(
      [this] {
        open_.reset();
        return OkStatus();
      },
      Seconds(kLogSeconds));
}

void UpdateWriter::Cancel() {
  cancelled_ = true;  // no round begins from here on, and those that have begun end
  if (UpdateClient* const client = client_) client->CancelRounds();
}

void UpdateWriter::Exchanged(uint64_t step, const std::vector<size_t>& ids) {
  if (rests()) return;
  loop_->Post([this, step, ids] {
    for (const size_t id : ids) Send(step, id, tensors_[id]->spec.elements);
  });
}

void UpdateWriter::Reached(uint64_t step, size_t id, uint64_t elements) {
  if (rests()) return;
  loop_->Post([this, step, id, elements] { Send(step, id, elements); });
}

void UpdateWriter::Begin(uint64_t step) {
  if (open_ && open_->step == step) return;
  open_.emplace();
  open_->step = step;
  RoundName name = name_;
  name.step = step;
  open_->way = client_.load()->Begin(name, restarts_, Seconds(kCallSeconds));
  // After Begin, so that a Cancel either shows here or finds the round.
  if (cancelled_) open_->wrong = Aborted("the epoch is over");
}

void UpdateWriter::Send(uint64_t step, size_t id, uint64_t elements) {
  Begin(step);
  if (!open_->wrong.ok() || open_->body.has(id, elements)) return;
  const std::optional<TensorSum> sum = sum_of_(id);
  if (!sum) {
    open_->wrong = Refused("tensor '" + tensors_[id]->spec.name +
                           "' is on a device, whose rounds cannot be logged yet");
    return;
  }
  open_->way->Write(open_->body.Add(id, tensors_[id]->spec.elements, *sum, elements, &memory_));
}

// What was sent already is sent again where the store has gone meanwhile.
Status UpdateWriter::Finish(const RoundFacts& facts, const std::function<bool()>& lives) {
  const TimePoint end = Now() + Seconds(kRetrySeconds);
  for (;;) {
    Begin(facts.step);
    for (size_t id = 0; !facts.skipped && id < tensors_.size(); ++id) {
      Send(facts.step, id, tensors_[id]->spec.elements);
    }
    Open round = *std::exchange(open_, std::nullopt);
    RW_RETURN_IF_ERROR(round.wrong);
    const std::string tail = round.body.Tail(facts);
    const Status logged = round.way->Finish(std::as_bytes(std::span(tail)));
    if (logged.code() != StatusCode::kUnavailable || !lives() || Now() >= end) return logged;
    std::this_thread::sleep_for(std::chrono::duration<double>(kPauseSeconds));
  }
}

void UpdateWriter::Log(const RoundFacts& facts, const std::function<bool()>& lives) {
  CheckBase();
  if (rests()) return;
  const Status logged =
      loop_->Call([this, facts, lives] { return Finish(facts, lives); }, Seconds(kLogSeconds));
  if (!lives()) return;  // the round is exchanged again, or nothing is
  restarts_ = false;
  Tell(facts.step, logged);
}

void UpdateWriter::CheckpointBegun(uint64_t step) {
  if (!suspended_) return;
  base_ = step;
  restarts_ = true;
  CheckBase();
}

void UpdateWriter::CheckpointEnded(uint64_t step, bool complete) {
  absl::MutexLock lock(&mutex_);
  ended_ = Ended{step, complete};
}

void UpdateWriter::CheckBase() {
  if (!base_) return;
  {
    absl::MutexLock lock(&mutex_);
    if (!ended_ || ended_->step != *base_) return;
    if (ended_->complete) return base_.reset();
  }
  GiveUpBase();
}

void UpdateWriter::GiveUpBase() {
  const uint64_t step = *std::exchange(base_, std::nullopt);
  restarts_ = false;
  Drain();  // of the round in hand, too
  Tell(step + 1, Aborted(absl::StrFormat("the checkpoint of step %d, after which it went on, is "
                                         "not complete",
                                         step)));
}

void UpdateWriter::Tell(uint64_t step, const Status& logged) {
  if (logged.ok() == !suspended_) return;
  suspended_ = !logged.ok();
  if (logged.ok()) {
    ringwood::Log(LogLevel::kWarning, "update_log_resumed",
                  absl::StrFormat("the update log goes on with step %d, and counts as soon as the "
                                  "checkpoint of step %d is complete",
                                  step, step - 1));
    return;
  }
  ringwood::Log(LogLevel::kError, "update_log_ended",
                absl::StrFormat("UPDATE LOG ENDS before step %d: %s. Training goes on; steps after "
                                "the next checkpoint are logged again",
                                step, Message(logged)));
}

}  // namespace ringwood
