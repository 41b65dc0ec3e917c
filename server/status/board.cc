#include "server/status/board.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log_line.h"
#include "base/text.h"
#include "server/status/stragglers.h"

namespace ringwood {
namespace {

constexpr size_t kMaxEventBytes = 500;
constexpr double kRateSeconds = 30;  // a commit that is older says nothing of the rate

}  // namespace

void Board::Saw(const Event& event, const Actions& actions, TimePoint now, double unix_seconds) {
  absl::MutexLock lock(&mutex_);
  now_ = now;
  unix_seconds_ = unix_seconds;
  std::visit([this](const auto& what) ABSL_NO_THREAD_SAFETY_ANALYSIS { Take(what); }, event);
  for (const Action& action : actions) {
    std::visit([this](const auto& what) ABSL_NO_THREAD_SAFETY_ANALYSIS { Follow(what); }, action);
  }
}

SlotRecord* Board::Find(uint64_t epoch, uint32_t node, uint64_t incarnation) {
  if (epoch != epoch_ || node >= members_.size()) return nullptr;
  return members_[node]->incarnation() == incarnation ? members_[node] : nullptr;
}

void Board::Take(const event::Heartbeat& heard) {
  const v1::Beat& beat = heard.beat;
  SlotRecord* const slot = Find(beat.epoch(), beat.node(), beat.incarnation());
  if (slot != nullptr) slot->Heard(heard.stream, beat.report(), now_);
}

// Reducers do not leave: the job ends for them when all its ranks have left.
void Board::Take(const event::StreamBroken& broken) {
  const bool over = std::all_of(members_.begin(), members_.end(), [](const SlotRecord* slot) {
    return slot->role() != v1::ROLE_WORKER || slot->left();
  });
  for (SlotRecord* slot : members_) {
    if (slot->stream() != broken.stream) continue;
    over ? slot->Ended() : slot->Broken();
  }
}

void Board::Take(const event::Leave& left) {
  const v1::LeaveRequest& request = left.request;
  SlotRecord* const slot = Find(request.epoch(), request.node(), request.incarnation());
  if (slot != nullptr) slot->Left(request.report(), request.failed());
}

// Whoever votes is a member, or the vote is refused and counts for nothing.
void Board::Take(const event::Vote& vote) {
  const v1::VoteRequest& request = vote.request;
  if (Find(request.epoch(), request.rank(), request.incarnation()) == nullptr) return;
  if (request.round() != round_ + 1 || !request.has_since_ready_seconds()) return;
  const double since = request.since_ready_seconds();
  if (!(since >= 0 && since < 1e6)) return;
  ready_[request.rank()] = now_ - Seconds(since);
}

// Of another job nothing is kept but the events; its checkpoints are those that it had. A
// coordinator that was started again begins here.
void Board::Follow(const action::Activate& activate) {
  const v1::EpochRecord& record = activate.record;
  if (record.job() != job_) {
    slots_.clear();
    const auto found = found_.find(record.job());
    checkpoints_ = found != found_.end() ? found->second : std::map<CheckpointId, double>();
    completed_ = 0;
    last_failure_.clear();
  }
  job_ = record.job();
  epoch_ = record.epoch();
  round_ = record.base_step();
  ++epochs_;
  ready_.clear();
  commits_.clear();
  for (auto& [seat, slot] : slots_) slot.Away();
  members_.clear();
  for (int node = 0; node < record.members_size(); ++node) {
    const v1::RecordedMember& member = record.members(node);
    SlotRecord* const slot = &slots_[{member.role(), member.rank()}];
    slot->Joined(member, static_cast<uint32_t>(node), now_);
    members_.push_back(slot);
  }
}

void Board::Follow(const action::Verdict& verdict) {
  const v1::Failure& failure = verdict.failure;
  ++failures_;
  last_failure_ = absl::StrFormat("%s failed at step %d of epoch %d: %s",
                                  failure.who().empty() ? "the job" : failure.who(), failure.step(),
                                  failure.epoch(), Shortened(failure.reason(), kMaxEventBytes));
  std::optional<uint32_t> slot;
  if (failure.node() < members_.size()) slot = members_[failure.node()]->slot();
  Note(LogLevel::kWarning, "epoch_failed",
       absl::StrFormat("epoch %d is over: %s failed at step %d: %s", failure.epoch(),
                       failure.who().empty() ? "the job" : failure.who(), failure.step(),
                       failure.reason()),
       slot);
}

void Board::Follow(const action::Report& report) { Note(report.level, report.event, report.text); }

void Board::Follow(const action::Reply& reply) {
  const auto* commit = std::get_if<v1::Commit>(&reply.answer);
  if (commit != nullptr && commit->epoch() == epoch_ && commit->round() != round_) {
    Committed(commit->round());
  }
}

void Board::Committed(uint64_t round) {
  const bool next = round == round_ + 1;
  round_ = round;
  commits_.push_back(now_);
  if (commits_.size() > kRateSteps) commits_.pop_front();
  std::map<uint32_t, TimePoint> ready;
  ready.swap(ready_);
  if (!next || ready.size() < 2) return;
  const auto first = std::min_element(
      ready.begin(), ready.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& [node, at] : ready) members_[node]->Late(ToSeconds(at - first->second));
}

void Board::Note(LogLevel level, const std::string& name, const std::string& text,
                 std::optional<uint32_t> slot) {
  v1::JobEvent event;
  event.set_unix_seconds(unix_seconds_);
  event.set_level(NameOf(level));
  event.set_name(name);
  event.set_epoch(epoch_);
  event.set_step(round_);
  if (slot) event.set_slot(*slot);
  event.set_text(Shortened(text, kMaxEventBytes));
  events_.push_back(std::move(event));
  if (events_.size() > kMostEvents) events_.pop_front();
}

void Board::Found(uint64_t job, const CheckpointId& id, double unix_seconds) {
  absl::MutexLock lock(&mutex_);
  std::map<CheckpointId, double>& found = found_[job];
  found[id] = unix_seconds;
  if (found.size() > kMostCheckpoints) found.erase(found.begin());
}

void Board::Completed(uint64_t job, const std::vector<CheckpointId>& kept, double unix_seconds) {
  absl::MutexLock lock(&mutex_);
  if (job != job_ || kept.empty()) return;
  const CheckpointId newest = *std::max_element(kept.begin(), kept.end());
  std::map<CheckpointId, double> now;
  for (const CheckpointId& id : kept) {
    const auto known = checkpoints_.find(id);
    now[id] = known != checkpoints_.end() ? known->second : id == newest ? unix_seconds : 0;
  }
  checkpoints_ = std::move(now);
  while (checkpoints_.size() > kMostCheckpoints) checkpoints_.erase(checkpoints_.begin());
  ++completed_;
  unix_seconds_ = unix_seconds;
  Note(LogLevel::kInfo, "checkpoint_completed",
       absl::StrFormat("the checkpoint of step %d is complete", newest.step));
}

void Board::Complete(v1::StatusResponse* status, TimePoint now, double unix_seconds) const {
  absl::MutexLock lock(&mutex_);
  status->set_unix_seconds(unix_seconds);
  status->set_epochs(epochs_);
  status->set_failures(failures_);
  // The membership's own is of the present epoch.
  if (status->last_failure().empty()) status->set_last_failure(last_failure_);
  std::map<Seat, bool> awaited;
  for (const v1::SlotState& slot : status->slots()) {
    awaited[{slot.role(), slot.slot()}] = slot.awaited();
  }
  std::map<uint32_t, RecentStep> recent;
  for (const auto& [seat, slot] : slots_) {
    if (seat.first != v1::ROLE_WORKER || !slot.node() || slot.left()) continue;
    if (const auto steps = slot.Recent()) recent[seat.second] = *steps;
  }
  const std::map<uint32_t, std::string> straggle = WhyStraggle(recent);
  if (!slots_.empty()) status->clear_slots();
  for (const auto& [seat, slot] : slots_) {
    v1::SlotState* const state = status->add_slots();
    *state = slot.Describe(now, heartbeat_seconds_);
    state->set_awaited(awaited[seat]);
    const auto why = straggle.find(seat.second);
    if (seat.first == v1::ROLE_WORKER && why != straggle.end()) state->set_straggles(why->second);
  }
  const bool runs = status->phase() == "running";
  if (runs && commits_.size() > 1 && now - commits_.back() < Seconds(kRateSeconds)) {
    const double seconds = ToSeconds(commits_.back() - commits_.front());
    if (seconds > 0) {
      status->set_steps_per_second(static_cast<double>(commits_.size() - 1) / seconds);
    }
  }
  for (auto kept = checkpoints_.rbegin(); kept != checkpoints_.rend(); ++kept) {
    v1::CheckpointFacts* const facts = status->add_checkpoints();
    facts->set_epoch(kept->first.epoch);
    facts->set_step(kept->first.step);
    facts->set_unix_seconds(kept->second);
  }
  status->set_completed_checkpoints(completed_);
  *status->mutable_events() = {events_.begin(), events_.end()};
}

}  // namespace ringwood
