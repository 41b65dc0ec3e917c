#include "launch/supervision/inquest.h"

#include <algorithm>
#include <utility>

namespace ringwood {

void Inquest::StartedAgain(int member) { endings_.erase(member); }

void Inquest::Ended(int member, const Ending& ending) { endings_[member] = ending; }

void Inquest::Failed(int member, const Ending& ending, const std::string& reason) {
  failures_.push_back({member, ending, reason, MeaningOf(ending, member < options_.servers)});
}

bool Inquest::HasFailed(int member) const {
  return std::any_of(failures_.begin(), failures_.end(),
                     [&](const Failure& failure) { return failure.member == member; });
}

void Inquest::Back(int member) {
  std::erase_if(failures_, [&](const Failure& failure) { return failure.member == member; });
}

void Inquest::Broke(const Status& status) {
  if (!broken_.ok()) return;
  broken_ = status;
  broken_first_ = failures_.empty();
}

bool Inquest::Told(int member, const std::string& sentence) {
  if (!told_.empty() || sentence.empty()) return false;
  told_ = sentence;
  blamed_ = member;
  return true;
}

// The one whom the coordinator named, where its end can have been the cause: not with 75, by which
// it says that it suffered from somebody else's. It may have been killed by us, as one that hung.
const Inquest::Failure* Inquest::Blamed() const {
  for (const Failure& failure : failures_) {
    if (failure.member == blamed_ && failure.ending.code != kExitRestart) return &failure;
  }
  return nullptr;
}

// The first that does not only say that somebody else failed (75).
const Inquest::Failure* Inquest::FirstOwn() const {
  for (const Failure& failure : failures_) {
    if (failure.ending.code != kExitRestart) return &failure;
  }
  return nullptr;
}

// The first with which a restart is of no use, or the first with which it is not so.
const Inquest::Failure* Inquest::FirstOf(bool configuration) const {
  for (const Failure& failure : failures_) {
    if (!configuration && failure.ending.code == kExitRestart) continue;
    if ((failure.meaning == Meaning::kConfiguration) == configuration) return &failure;
  }
  return nullptr;
}

const Inquest::Failure* Inquest::Culprit() const {
  const auto stopped = std::find_if(failures_.begin(), failures_.end(),
                                    [](const Failure& failure) { return failure.ending.stopped; });
  if (const Failure* blamed = Blamed()) return blamed;
  // A fixed job never gets beyond a process that is configured wrongly, an elastic one goes on
  // without it.
  if (const Failure* wrong = FirstOf(true); wrong != nullptr && !options_.elastic) return wrong;
  if (stopped != failures_.end()) return &*stopped;
  if (const Failure* other = FirstOf(false)) return other;
  if (const Failure* own = FirstOwn()) return own;
  return failures_.empty() ? nullptr : &failures_[0];
}

// One that was named and has not failed by itself before our signals is the one to look at: it
// hung, or ended well while the others needed it. What others made of a rank that hung is its
// consequence.
void Inquest::PutBlame(Meaning meaning, Verdict* verdict) const {
  const bool failed = HasFailed(blamed_);
  if (failed && (Blamed() != nullptr || meaning != Meaning::kRestart)) return;
  const auto end = endings_.find(blamed_);
  const bool ended = end != endings_.end();
  verdict->culprit = blamed_;
  verdict->reason = ended ? Describe(end->second) : "did not end by itself";
  const bool hung = !failed && (!ended || end->second.code != 0);
  if (!hung || meaning != Meaning::kOwn) return;
  verdict->exit_code = kExitRestart;
  verdict->restart_helps = true;
}

Verdict Inquest::Judge() const {
  Verdict verdict;
  verdict.told = told_;
  if (broken_first_ || (!broken_.ok() && failures_.empty())) {
    verdict.exit_code = ExitCodeOf(broken_);
    verdict.restart_helps = verdict.unreachable = verdict.exit_code == kExitRestart;
    verdict.reason = Message(broken_);
    verdict.first = blamed_;
    return verdict;
  }
  const Failure* culprit = Culprit();
  if (culprit == nullptr) return verdict;
  const Meaning meaning = culprit->meaning;
  verdict.exit_code = meaning == Meaning::kRestart         ? kExitRestart
                      : meaning == Meaning::kConfiguration ? kExitConfiguration
                                                           : culprit->ending.code;
  verdict.restart_helps =
      meaning == Meaning::kRestart || (meaning == Meaning::kOwn && options_.restart_on_failure);
  verdict.culprit = culprit->member;
  verdict.reason = culprit->reason;
  if (blamed_ >= 0) PutBlame(meaning, &verdict);
  if (!told_.empty() && blamed_ < 0 && culprit->ending.code == kExitRestart) {
    // The coordinator named nobody, and all only followed it: the first to end is not the cause.
    verdict.culprit = -1;
    verdict.first = culprit->member;
    verdict.first_reason = std::exchange(verdict.reason, "");
    return verdict;
  }
  const Failure* first = FirstOwn();
  if (first != nullptr && first->member != verdict.culprit) {
    verdict.first = first->member;
    verdict.first_reason = first->reason;
  }
  return verdict;
}

}  // namespace ringwood
