#include "client/step_protocol.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/text.h"
#include "transport/watch.h"

namespace ringwood {
namespace {

constexpr size_t kMostWhy = 300;  // bytes of why an epoch ended here, for the others' logs

Totals TotalsOf(const v1::Commit& commit) {
  return {commit.total_weight(),
          commit.skipped(),
          {commit.contributors().begin(), commit.contributors().end()}};
}

std::vector<int> SlotsOf(const EpochLink& link) {
  std::vector<int> slots;
  for (int rank = 0; rank < link.place().world; ++rank) slots.push_back(link.SlotOf(rank));
  return slots;
}

}  // namespace

void StepProtocol::EnterLog(const v1::JoinResponse& joined, Connection* connection) {
  const bool writes = joined.update_log() && joined.log_writer() == joined.node();
  updates_->Enter(writes ? connection->updates() : nullptr,
                  {joined.epoch(), 0, joined.node(), connection->incarnation()});
}

Status StepProtocol::Begin(double weight, uint32_t pass) {
  if (!receiving_) RW_RETURN_IF_ERROR(plan_->pipeline()->SetWeight(weight));
  weight_ = weight;
  pass_ = pass;
  begun_ = true;
  return OkStatus();
}

Status StepProtocol::CheckComplete(int rank) {
  const std::vector<TableIndex> missing = plan_->pipeline()->Missing();
  if (missing.empty()) {
    return !table_.empty() || begun_ ? OkStatus() : Refused("finish_step without a step");
  }
  constexpr size_t kNamed = 8;
  std::string names;
  for (size_t i = 0; i < missing.size() && i < kNamed; ++i) {
    names += (i == 0 ? "" : ", ") + table_.name(table_.IdOf(missing[i]));
  }
  return Refused(absl::StrFormat(
      "rank %d: step %d: %d of %d gradients are not ready (%s%s): call ready for each, or backward "
      "before finish_step",
      rank, round(), missing.size(), table_.size(), names, missing.size() > kNamed ? ", ..." : ""));
}

// The gradients of a worker without the state mean nothing: with the weight 0 none is read.
Status StepProtocol::BringNothing() {
  for (const TableIndex tensor : plan_->pipeline()->Missing()) {
    RW_RETURN_IF_ERROR(plan_->pipeline()->Ready(tensor));
  }
  begun_ = true;
  return OkStatus();
}

// From the moment the vote is sent until its answer is heard the round is in doubt: the coordinator
// may have committed it, and the other ranks may have applied it. Nothing that the trainer sees has
// changed here yet, so whatever happens in between, this rank can still do either.
StatusOr<v1::Commit> StepProtocol::Vote(const RoundSummary& summary, EpochLink* link) {
  v1::VoteRequest vote;
  vote.set_epoch(link->epoch());
  vote.set_round(round());
  vote.set_rank(static_cast<uint32_t>(link->place().rank));
  vote.set_incarnation(link->connection()->incarnation());
  vote.set_digest(summary.digest);
  vote.set_weight(weight());
  vote.set_non_finite(summary.non_finite);
  vote.set_pass(pass_);
  vote.set_leaving(leaving_);
  vote.set_ending(ending_);
  vote.set_saves(link->connection()->progress()->saves());
  vote.set_checkpoint(link->place().rank == 0 && saves_->Due(Now(), checkpoint_wanted_));
  if (const auto since = link->connection()->tally()->SinceReady(Now())) {
    vote.set_since_ready_seconds(*since);
  }
  replanner_->Ask(round(), link->place(), &vote);
  RW_ASSIGN_OR_RETURN(v1::Commit commit,
                      link->connection()->control()->Vote(vote, Seconds(kLongestWaitSeconds)));
  if (commit.epoch() != link->epoch() || commit.round() != round()) {
    return Aborted(
        absl::StrFormat("a commit of epoch %d round %d answers a vote of epoch %d round %d",
                        commit.epoch(), commit.round(), link->epoch(), round()));
  }
  const Totals committed = TotalsOf(commit);
  if (summary.totals && *summary.totals != committed) {
    return Internal(absl::StrFormat(
        "the coordinator commits the weight %.17g (skipped: %d), the ranks' own sum is %.17g (%d)",
        committed.weight, committed.skipped, summary.totals->weight, summary.totals->skipped));
  }
  return commit;
}

StatusOr<StepResult> StepProtocol::Finish(EpochLink* link) {
  if (receiving_) RW_RETURN_IF_ERROR(BringNothing());
  RW_RETURN_IF_ERROR(CheckComplete(link->slot()));
  if (!receiving_) RW_RETURN_IF_ERROR(table_.CheckApart());
  Pipeline* const pipeline = plan_->pipeline();
  observer_->WaitBegun(round(), Now());
  const Status exchanged = pipeline->Wait(Seconds(kLongestWaitSeconds));
  if (!exchanged.ok()) return Abort(exchanged, link);
  const RoundSummary summary = pipeline->Summary();
  if (link->elastic()) prepared_ = summary;
  if (updates_->writes()) {  // before the vote: what is committed is logged
    LogRound(*summary.totals, *link, [link] { return link->status().ok(); });
  }
  observer_->Voted(round(), summary.digest, Now());
  const StatusOr<v1::Commit> commit = Vote(summary, link);
  if (!commit.ok()) return Abort(commit.status(), link);
  const Totals totals = TotalsOf(*commit);
  RW_RETURN_IF_ERROR(Apply(totals, link));
  TakeAsks(*commit);
  StepResult result = Ended(totals, summary, *link);
  checkpoint_wanted_ = commit->checkpoint_wanted();
  regroup_ = commit->regroup();
  link->connection()->progress()->Took(step_);
  if (regroup_) {  // no other round of this epoch follows
    LetGo({commit->leaving().begin(), commit->leaving().end()}, link);
    pipeline->Begin(round());
    pipeline->Fail(Aborted("a process waits to take part"));  // what becomes ready is kept
    return result;
  }
  // This step is committed; an error from here on ends the session, or the epoch of an elastic job,
  // and is returned by the next call.
  Status followed;
  if (commit->review()) followed = replanner_->AllReduceProfile(commit->probe(), link);
  if (followed.ok() && commit->has_plan()) (void)agreement_->Change(*commit, link);
  if (!commit->has_plan()) pipeline->Begin(round());  // a new plan has a pipeline of its own
  return result;
}

template <typename Said>
void StepProtocol::TakeAsks(const Said& said) {
  checkpoint_due_ = said.checkpoint();
  asked_to_end_ = said.ending();
  if (checkpoint_due_) saves_->Told(Now());
}

// `of`: the epoch in which it was exchanged.
void StepProtocol::LogRound(const Totals& totals, const EpochLink& of,
                            const std::function<bool()>& lives) {
  RoundFacts facts{round(), totals.skipped, totals.weight, SlotsOf(of), {}, updates_->note()};
  for (const int rank : totals.contributors) facts.contributors.push_back(of.SlotOf(rank));
  updates_->Log(facts, lives);
}

// A failure on the way is that of the epoch: the step itself is committed, and who has not left
// then does so in the next epoch.
void StepProtocol::LetGo(const std::vector<int>& leaving, EpochLink* link) {
  some_leave_ = !leaving.empty();
  if (some_leave_) (void)departures_->Together(leaving, round(), link);
}

// The commit: what every exchange has kept beside the present state, in shadows and second buffers,
// becomes the present state, and the averages go into the gradients. Up to here an abort restores
// the state to the bit. In the middle there is no way back: what is thrown leaves some gradients
// applied and some not, so the session is over, and no second finish_step applies the step again.
Status StepProtocol::Apply(const Totals& totals, EpochLink* link) {
  Pipeline* const pipeline = plan_->pipeline();
  Status status;
  try {
    status = CatchOutOfMemory([&] {
      observer_->Committed(round(), totals.skipped, Now());
      if (totals.skipped) {
        pipeline->Abort();
      } else {
        pipeline->Apply(totals.weight);
        states_->Committed(round());
      }
      observer_->Applied(round(), Now());
      return OkStatus();
    });
  } catch (const std::exception& thrown) {
    status = Internal(thrown.what());
  }
  if (status.ok()) return status;
  status =
      Annotate(status, absl::StrFormat("rank %d: step %d was committed and is applied in part: "
                                       "restart from the checkpoint",
                                       link->slot(), round()));
  broken_ = true;
  link->Fail(status);
  link->connection()->Drain();
  return status;
}

// In a fixed job a round in doubt is aborted like one that was never voted on, although others may
// have applied it. That is safe for one reason: the epoch has failed with it, and every rank
// restarts from a checkpoint. A worker of an elastic job goes on in another epoch: it drops nothing
// before Settle has heard whether the round was committed.
Status StepProtocol::Abort(const Status& status, EpochLink* link) {
  const Status named =
      Annotate(link->Named(status), absl::StrFormat("rank %d: step %d", link->slot(), round()));
  link->Fail(named);
  link->connection()->Drain();
  if (!link->elastic()) plan_->pipeline()->Abort();
  return named;
}

v1::Held StepProtocol::HeldOf(EpochLink* link) {
  v1::Held held;
  held.set_job(link->joined().job());
  held.set_epoch(epoch_);
  held.set_round(held_step());
  held.set_prepared(prepared_.has_value());
  held.set_receiving(receiving_);
  const Status over = link->status();
  for (const int node : SilentNodes(over)) held.add_silent(static_cast<uint32_t>(node));
  held.set_why(Printable(Message(over), kMostWhy));
  if (prepared_ && !prepared_->totals->skipped) held.set_digest(prepared_->digest);
  held.set_checkpoint(checkpoint_due_);
  held.set_ending(asked_to_end_);
  held.mutable_left()->Add(departures_->left().begin(), departures_->left().end());
  return held;
}

Status StepProtocol::Settle(const v1::JoinResponse& joined, EpochLink* link) {
  EnterLog(joined, link->connection());
  const uint64_t base = joined.base_step();
  const auto& holders = joined.holders();
  const bool holds = std::find(holders.begin(), holders.end(), joined.node()) != holders.end();
  const bool forward = holds && prepared_ && base == round();
  if (holds && (receiving_ || (!forward && base != held_step()))) {
    return Internal(absl::StrFormat(
        "rank %d: the coordinator says that this rank has the state of step %d, it has step %d",
        link->slot(), base, held_step()));
  }
  if (forward) {
    const RoundSummary summary = *std::exchange(prepared_, std::nullopt);
    if (updates_->writes()) {  // who wrote before may have died before it came to this round
      LogRound(*summary.totals, *link, [] { return true; });
    }
    RW_RETURN_IF_ERROR(Apply(*summary.totals, link));
    TakeAsks(joined);
    settled_ = Ended(*summary.totals, summary, *link);
    plan_->pipeline()->Begin(round());  // nothing of it is ready
    if (leaving_) departures_->LeaveBefore(round());
    in_doubt_ = false;
  } else {
    in_doubt_ = !holds && prepared_ && !prepared_->totals->skipped;
    Drop();
  }
  receiving_ = !holds;
  if (receiving_) {  // where it was, the others are no more
    exchanged_again_ = 0;
    replays_ = 0;
  }
  step_ = base - replays_;
  epoch_ = joined.epoch();
  regroup_ = joined.regroup();
  some_leave_ = false;
  return OkStatus();
}

void StepProtocol::Drop() {
  prepared_.reset();
  Pipeline* const pipeline = plan_->pipeline();
  if (pipeline == nullptr) return;  // the epoch ended before there was a plan
  pipeline->Abort();
  exchanged_again_ += pipeline->IsOpen() && !regroup_;  // it was not exchanged in this epoch
}

// The round is applied; the next one has begun.
StepResult StepProtocol::Ended(const Totals& totals, const RoundSummary& summary,
                               const EpochLink& link) {
  const int world = link.place().world;
  prepared_.reset();
  skips_->Ended(link.place(), round(), weight(), totals.skipped);
  ++step_;
  weight_ = 1;
  pass_ = 0;
  begun_ = false;
  StepResult result;
  result.step = step_;
  result.skipped = totals.skipped;
  result.total_weight = totals.weight;
  result.dense_bytes = summary.dense_bytes;
  result.sparse_bytes = summary.sparse_bytes;
  result.dense_equivalent_bytes = table_.dense_bytes() * 2 * (world - 1) / world;
  result.exchanged_again = std::exchange(exchanged_again_, 0);
  result.checkpoint_due = checkpoint_due_;
  result.ending = asked_to_end_;
  result.members = SlotsOf(link);
  for (const int rank : totals.contributors) result.contributors.push_back(link.SlotOf(rank));
  return result;
}

}  // namespace ringwood
