// Chooses routes and densities together: the least time, then the most information, then the fewest
// groups. Each candidate's densities are raised as far as the deadline allows; among those that end
// within epsilon of the fastest, the one with the most information wins.
#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/density_changes.h"
#include "plan/strategy/candidates.h"
#include "plan/strategy/nic.h"
#include "plan/strategy/problem.h"

namespace ringwood {
namespace {

// When each group must be sent at the latest: so that it ends by the deadline, the next one starts
// in time, and so does the one that waits for its place in the window of their lane.
std::vector<double> SentBy(const Problem& problem, double deadline, const Candidate& candidate) {
  const size_t n = candidate.groups.size();
  std::vector<double> sent_by(n), starts(n);
  std::vector<size_t> rings, trees;  // seen so far, the last group first
  double next = deadline;
  for (size_t g = n; g-- > 0;) {
    const Group& group = candidate.groups[g];
    const double delay = DelayOf(problem, group);
    const bool tree = group.route == "tree";
    std::vector<size_t>& lane = tree ? trees : rings;
    const size_t window = tree ? kTreesAtOnce : kRingsAtOnce;
    sent_by[g] = std::min(next, deadline - delay);
    if (delay > 0 && lane.size() >= window) {
      sent_by[g] = std::min(sent_by[g], starts[lane[lane.size() - window]] - delay);
    }
    starts[g] = next = sent_by[g] - SecondsOf(problem, group);
    lane.push_back(g);
  }
  return sent_by;
}

// Groups in order, each as dense as the deadline allows. An early group's bytes delay no fewer
// groups than a later one's, but are under fewer deadlines (sum of durations from g on <= deadline
// - ready of g, for each g): so raising early groups first gives the most entries, exactly so when
// the tree's cost is affine.
void RaiseDensities(const Problem& problem, double deadline, Candidate* candidate) {
  const std::vector<double> sent_by = SentBy(problem, deadline, *candidate);
  Nic nic(problem);
  for (size_t g = 0; g < candidate->groups.size(); ++g) {
    Group& group = candidate->groups[g];
    const double start = nic.StartOf(candidate->ready[g], group);
    if (group.route == "tree") {
      double elements = 0;
      for (const uint32_t t : group.tensors) {
        elements += static_cast<double>(problem.input->tensors[t].elements);
      }
      uint64_t fits = static_cast<uint64_t>(group.density * elements);
      uint64_t late =
          static_cast<uint64_t>(std::min(1.0, problem.input->max_density) * elements) + 1;
      const auto k = [&](uint64_t x) {
        return EntriesOf(problem.input->tensors, group.tensors,
                         std::max(group.density, static_cast<double>(x) / elements));
      };
      while (late > fits + 1) {
        const uint64_t middle = fits + (late - fits) / 2;
        const double end = start + TreeGroupSeconds(problem, k(middle));
        (end <= sent_by[g] ? fits : late) = middle;
      }
      group.density = std::min(1.0, std::max(group.density, static_cast<double>(fits) / elements));
      group.k = EntriesOf(problem.input->tensors, group.tensors, group.density);
    }
    nic.Send(candidate->ready[g], &group);
  }
  candidate->end = nic.end();
}

void ExplainHybrid(const Problem& problem, Candidate* candidate) {
  for (Group& group : candidate->groups) {
    const double ring = problem.ring.Seconds(RingBytes(problem, group.tensors)) +
                        problem.ring_delay.Of(RingBytes(problem, group.tensors));
    const double seconds = group.end_seconds - group.start_seconds;
    if (group.route == "tree") {
      const double bound = [&] {
        double density = 0;
        for (const uint32_t t : group.tensors) {
          density = std::max(density, problem.input->tensors[t].density);
        }
        return density;
      }();
      group.reason =
          absl::StrFormat("sparse: %s up the tree against %s on the ring; density %s",
                          FormatSeconds(seconds), FormatSeconds(ring),
                          group.density > bound ? "raised to what hides" : "at the lower bound");
    } else {
      group.reason = absl::StrFormat("dense: %d tensors on the ring in %s, one start-up of %s",
                                     group.tensors.size(), FormatSeconds(seconds),
                                     FormatSeconds(problem.ring.Startup()));
    }
  }
}

}  // namespace

Plan PlanHybrid(const Problem& problem) {
  std::vector<Candidate> candidates = Candidates(problem);
  if (candidates.empty()) return PlanFirst(problem);
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) least = std::min(least, candidate.end);
  const double forward = problem.input->forward_seconds;
  const double backward = problem.ready.empty() ? 0 : problem.ready.back();
  const double deadline =
      (forward + std::max(least, backward)) * (1 + problem.input->epsilon) - forward;
  Candidate* best = nullptr;
  for (Candidate& candidate : candidates) {
    if (candidate.end > deadline && candidate.end > least) continue;
    RaiseDensities(problem, std::max(deadline, candidate.end), &candidate);
    candidate.information = InformationOf(candidate.groups, problem.input->tensors);
    if (best == nullptr || candidate.information > best->information ||
        (candidate.information == best->information &&
         candidate.groups.size() < best->groups.size())) {
      best = &candidate;
    }
  }
  ExplainHybrid(problem, best);
  return Finish("hybrid", problem, std::move(best->groups));
}

}  // namespace ringwood
