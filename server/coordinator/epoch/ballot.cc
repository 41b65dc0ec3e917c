#include "server/coordinator/epoch/ballot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace ringwood {
namespace {

bool SameVote(const v1::VoteRequest& a, const v1::VoteRequest& b) {
  return a.digest() == b.digest() && a.weight() == b.weight() && a.non_finite() == b.non_finite() &&
         a.leaving() == b.leaving() && a.pass() == b.pass();
}

}  // namespace

Status Ballot::Add(CallId call, const v1::VoteRequest& vote, CallId* displaced) {
  *displaced = 0;
  const std::string who = label_(vote.rank());
  if (!std::isfinite(vote.weight()) || vote.weight() < 0) {
    return Invalid(absl::StrFormat(
        "%s gave the weight %g to step %d: a weight is a number of samples, 0 or more", who,
        vote.weight(), round_));
  }
  if (vote.rank() != 0 && (vote.has_plan() || vote.review() || vote.probe() || vote.checkpoint())) {
    return Invalid(who + " asks for a plan, a review or a checkpoint: only rank 0 does, for all");
  }
  auto found = votes_.find(vote.rank());
  if (found != votes_.end()) {
    if (!SameVote(found->second.vote, vote)) {
      return Internal(absl::StrFormat("%s voted twice, differently, on step %d", who, round_));
    }
    *displaced = found->second.call;
  }
  votes_[vote.rank()] = {call, vote};
  return OkStatus();
}

bool Ballot::CallGone(CallId call) {
  bool held = false;
  for (auto& [rank, cast] : votes_) {
    if (cast.call != call) continue;
    cast.call = 0;
    held = true;
  }
  return held;
}

std::vector<uint32_t> Ballot::Missing() const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!votes_.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

StatusOr<v1::Commit> Ballot::Decide() const {
  RW_CHECK(Complete());
  v1::Commit commit;
  commit.set_epoch(epoch_);
  commit.set_round(round_);
  double weight = 0;
  bool non_finite = false;
  for (const auto& [rank, cast] : votes_) {
    weight += cast.vote.weight();
    non_finite |= cast.vote.non_finite();
    if (cast.vote.weight() > 0) commit.add_contributors(rank);
    if (cast.vote.leaving()) commit.add_leaving(rank);
    if (cast.vote.ending()) commit.set_ending(true);
  }
  if (!non_finite) RW_RETURN_IF_ERROR(Divergence());
  commit.set_total_weight(weight);
  commit.set_skipped(non_finite || weight == 0);
  const v1::VoteRequest& first = votes_.at(0).vote;
  if (first.has_plan()) *commit.mutable_plan() = first.plan();
  commit.set_review(first.review());
  commit.set_probe(first.probe());
  commit.set_checkpoint(first.checkpoint() || commit.ending());
  return commit;
}

Status Ballot::CheckSaves() const {
  std::optional<uint32_t> none, some;
  for (const auto& [rank, cast] : votes_) {
    if (!cast.vote.has_saves()) continue;
    std::optional<uint32_t>& first = cast.vote.saves() == 0 ? none : some;
    if (!first) first = rank;
  }
  if (!none || !some) return OkStatus();
  return Refused(absl::StrFormat(
      "%s has begun a checkpoint before step %d, and %s none: every rank must save after the same "
      "steps, each its own part (is the call under `if rank == 0`?)",
      label_(*some), round_, label_(*none)));
}

template <typename Said>
std::map<uint64_t, std::string> Ballot::Sides(const Said& said) const {
  std::map<uint64_t, std::string> sides;
  const uint64_t first = said(votes_.at(0).vote);
  if (std::all_of(votes_.begin(), votes_.end(),
                  [&](const auto& cast) { return said(cast.second.vote) == first; })) {
    return sides;
  }
  for (const auto& [rank, cast] : votes_) {
    std::string& side = sides[said(cast.vote)];
    side += (side.empty() ? "" : ", ") + label_(rank);
  }
  return sides;
}

Status Ballot::CheckPasses() const {
  const auto sides = Sides([](const v1::VoteRequest& vote) { return vote.pass(); });
  if (sides.empty()) return OkStatus();
  return Refused(absl::StrFormat(
      "step %d is %s, counted from the last update of each: nothing was applied; every rank must "
      "exchange the same number of backward passes before it calls step(): hold them back "
      "(no_sync, backward_passes_per_step) where their number may differ",
      round_, absl::StrJoin(sides, ", ", [](std::string* out, const auto& side) {
        absl::StrAppendFormat(out, "pass %d on %s", side.first, side.second);
      })));
}

Status Ballot::Divergence() const {
  const auto sides = Sides([](const v1::VoteRequest& vote) { return vote.digest(); });
  if (sides.empty()) return OkStatus();
  return Corrupt(absl::StrFormat(
      "the averaged gradients of step %d differ between ranks (digests %s): nothing was applied; "
      "check the memory and network of the ranks that stand alone, then resume",
      round_, absl::StrJoin(sides, "; ", [](std::string* out, const auto& side) {
        absl::StrAppendFormat(out, "%s: %016x", side.second, side.first);
      })));
}

const std::string& Ballot::plan_reason() const { return votes_.at(0).vote.plan_reason(); }

std::vector<CallId> Ballot::Calls() const {
  std::vector<CallId> calls;
  for (const auto& [rank, cast] : votes_) {
    if (cast.call != 0) calls.push_back(cast.call);
  }
  return calls;
}

}  // namespace ringwood
