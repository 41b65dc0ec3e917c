// The coordinator's processes: the real Membership, each in a shell that has a disk, calls and
// streams. One is the present one; one before it may live on for a while, replaced without knowing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "server/coordinator/membership.h"
#include "tests/server/simulation/agenda.h"
#include "tests/server/simulation/ledger.h"
#include "tests/server/simulation/mistake.h"

namespace ringwood::simulation {

using Answer = decltype(action::Reply::answer);

// Whoever called, by the numbers of calls and streams.
class Callers {
 public:
  virtual ~Callers() = default;
  virtual void Answered(CallId call, Answer answer) = 0;
  virtual void Noticed(StreamId stream, const v1::Notice& notice) = 0;
  virtual void Closed(StreamId stream) = 0;
};

// What survives coordinators. Slow for a while, or without room.
struct Disk {
  v1::EpochRecord record;
  v1::EpochRecord before;  // of the mistake kForgets
  std::optional<CheckpointBase> checkpoint;
  bool slow = false;
  bool full = false;
};

class Coordinators {
 public:
  Coordinators(MembershipOptions options, Mistake mistake, Agenda* agenda, Ledger* ledger,
               Disk* disk, Callers* callers);

  uint64_t present() const { return present_; }  // 0: none runs

  // Delivers an event to a process of the coordinator. False: it is not there any more.
  bool Receive(uint64_t shell, const Event& event);
  void Start();
  void Kill(uint64_t shell);
  // Another one takes over, and the one before goes on until it finds out.
  void Replace(double seconds);
  // All that is asked is answered when it stops.
  void StopAndExpectNothingForgotten();

  uint64_t records() const { return records_; }
  uint64_t rollbacks() const { return rollbacks_; }
  uint64_t started() const { return started_; }

 private:
  struct Shell {
    uint64_t number;
    std::unique_ptr<Membership> membership;
    std::set<CallId> seen;  // calls
    std::set<CallId> open;  // those that an answer is owed to
    std::set<CallId> gone;  // whose caller went away before they came
  };

  void Happen(Shell& shell, const Event& event);
  void Open(Shell& shell, CallId call) {
    shell.seen.insert(call);
    shell.open.insert(call);
  }
  void Later(uint64_t number, double seconds, std::function<void(Shell&)> act);
  void Tick(uint64_t number);
  void Forge(Shell& shell, const event::Vote& vote);
  double DiskSeconds() {
    return disk_->slow ? agenda_->Between(0.2, 6) : agenda_->Between(0.0002, 0.01);
  }
  bool Write(const v1::EpochRecord& record);  // false: refused

  void Do(Shell& shell, const action::Reply& reply);
  void Do(Shell& shell, const action::FindBase& find);
  void Do(Shell& shell, const action::Persist& persist);
  void Do(Shell&, const action::Activate&) {}
  void Do(Shell&, const action::Notify& notify) { callers_->Noticed(notify.stream, notify.notice); }
  void Do(Shell&, const action::CloseStream& close) { callers_->Closed(close.stream); }
  void Do(Shell&, const action::Verdict& verdict) {
    agenda_->Say("coordinator: epoch %d is over: %s %s", verdict.failure.epoch(),
                 verdict.failure.who(), verdict.failure.reason());
  }
  void Do(Shell&, const action::Await&) {}
  void Do(Shell&, const action::Report& report) { agenda_->Say("coordinator: %s", report.text); }

  const MembershipOptions options_;
  const Mistake mistake_;
  Agenda* const agenda_;
  Ledger* const ledger_;
  Disk* const disk_;
  Callers* const callers_;
  std::map<uint64_t, Shell> shells_;
  uint64_t present_ = 0;
  uint64_t started_ = 0;
  uint64_t records_ = 0;
  uint64_t rollbacks_ = 0;
  CallId forged_ = CallId{1} << 62;
};

inline std::string HashOf(uint64_t incarnation) { return std::to_string(incarnation); }

inline Coordinators::Coordinators(MembershipOptions options, Mistake mistake, Agenda* agenda,
                                  Ledger* ledger, Disk* disk, Callers* callers)
    : options_([&] {
        options.hash = mistake == Mistake::kAnyoneIsMember
                           ? [](uint64_t) { return std::string("anyone"); }
                           : HashOf;
        return std::move(options);
      }()),
      mistake_(mistake),
      agenda_(agenda),
      ledger_(ledger),
      disk_(disk),
      callers_(callers) {}

inline void Coordinators::Start() {
  if (mistake_ == Mistake::kForgets) disk_->record = disk_->before;
  present_ = ++started_;
  Shell& shell = shells_[present_];
  shell.number = present_;
  shell.membership = std::make_unique<Membership>(options_, disk_->record);
  agenda_->Say("coordinator %d starts, its record is of epoch %d", present_, disk_->record.epoch());
  Tick(present_);
}

inline void Coordinators::Kill(uint64_t number) {
  if (shells_.erase(number) == 0) return;
  agenda_->Say("coordinator %d dies", number);
  if (present_ == number) present_ = 0;
}

inline void Coordinators::Replace(double seconds) {
  const uint64_t old = present_;
  Start();
  agenda_->After(seconds, [this, old] { Kill(old); });
}

inline void Coordinators::Later(uint64_t number, double seconds, std::function<void(Shell&)> act) {
  agenda_->After(seconds, [this, number, act = std::move(act)] {
    if (const auto found = shells_.find(number); found != shells_.end()) act(found->second);
  });
}

inline void Coordinators::Tick(uint64_t number) {
  Later(number, 0.25, [this](Shell& shell) {
    Happen(shell, event::Tick{});
    Tick(shell.number);
  });
}

inline bool Coordinators::Receive(uint64_t number, const Event& event) {
  const auto found = shells_.find(number);
  if (found == shells_.end()) return false;
  Shell& shell = found->second;
  if (const auto* gone = std::get_if<event::CallGone>(&event);
      gone && !shell.seen.contains(gone->call)) {
    shell.gone.insert(gone->call);
    return true;
  }
  CallId call = 0;
  std::visit(
      [&](const auto& what) {
        if constexpr (requires { what.request; }) call = what.call;
      },
      event);
  if (call != 0) Open(shell, call);
  if (const auto* vote = std::get_if<event::Vote>(&event);
      vote && mistake_ == Mistake::kForgedVote) {
    Forge(shell, *vote);
  }
  Happen(shell, event);
  if (shell.gone.contains(call)) Happen(shell, event::CallGone{call});
  return true;
}

inline void Coordinators::Forge(Shell& shell, const event::Vote& vote) {
  const v1::EpochRecord* record = ledger_->Record(vote.request.epoch());
  if (record == nullptr || record->world() < 2) return;
  event::Vote forged = vote;
  forged.call = ++forged_;
  forged.request.set_rank((vote.request.rank() + 1) % record->world());
  const auto& member = record->members(static_cast<int>(forged.request.rank()));
  forged.request.set_incarnation(member.incarnation());
  Open(shell, forged.call);
  Happen(shell, forged);
}

inline void Coordinators::Happen(Shell& shell, const Event& event) {
  for (const Action& action : shell.membership->On(event, agenda_->now())) {
    std::visit([&](const auto& what) { Do(shell, what); }, action);
  }
}

inline void Coordinators::Do(Shell& shell, const action::Reply& reply) {
  ledger_->Expect(shell.open.erase(reply.call) == 1, "call %d is answered twice", reply.call);
  callers_->Answered(reply.call, reply.answer);
}

inline void Coordinators::Do(Shell& shell, const action::FindBase& find) {
  Later(shell.number, DiskSeconds(), [this, job = find.job](Shell& shell) {
    const auto& newest = disk_->checkpoint;
    const bool there = newest && (job == 0 || job == newest->job);
    Happen(shell, event::BaseFound{there ? newest : std::nullopt});
  });
}

// A write that is under way when its coordinator dies reaches the disk or not, but not after
// another one has begun. One that was replaced is refused.
inline void Coordinators::Do(Shell& shell, const action::Persist& persist) {
  const double seconds = DiskSeconds();
  const uint64_t number = shell.number;
  const bool answers_first = mistake_ == Mistake::kAnswerFirst;
  if (answers_first) {
    Later(number, 0, [this](Shell& shell) { Happen(shell, event::Persisted{OkStatus()}); });
  }
  const bool reaches_disk = agenda_->Chance(0.5);
  agenda_->After(seconds, [this, number, reaches_disk, answers_first, record = persist.record] {
    const auto found = shells_.find(number);
    if (found == shells_.end() && !reaches_disk) return;
    const bool written = number == started_ && Write(record);
    if (found == shells_.end() || answers_first) return;
    Happen(found->second, event::Persisted{written ? OkStatus() : Exhausted("it is not kept")});
  });
}

inline bool Coordinators::Write(const v1::EpochRecord& record) {
  if (disk_->full || record.epoch() <= disk_->record.epoch()) return false;
  agenda_->Say("disk: epoch %d of %d workers begins at step %d of epoch %d%s", record.epoch(),
               record.world(), record.base_step(), record.base_epoch(),
               record.from_members() ? ", with members" : "");
  ledger_->Decided(disk_->record, record);
  disk_->before = disk_->record;
  disk_->record = record;
  ++records_;
  if (!record.from_members() && disk_->before.epoch() != 0) ++rollbacks_;
  for (v1::RecordedMember& member : *disk_->record.mutable_members()) {
    member.set_incarnation_hash(options_.hash(member.incarnation()));
    member.clear_incarnation();
  }
  return true;
}

inline void Coordinators::StopAndExpectNothingForgotten() {
  for (auto& [number, shell] : shells_) {
    Happen(shell, event::Stop{"the end"});
    ledger_->Expect(shell.open.empty(), "%d calls were never answered", shell.open.size());
  }
}

}  // namespace ringwood::simulation
