// A PlanInput with every default filled in: what the strategies behind MakePlan work on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/strategy/lane.h"
#include "plan/strategy/planner.h"

namespace ringwood {

struct Problem {
  const PlanInput* input = nullptr;
  std::vector<double> ready;  // of each tensor
  Cost ring;  // bytes of a message → s, with the cheapest allowed codec at each size
  Cost tree;  // bytes of one worker's message → s
  Delay ring_delay;
  double tree_delay = 0;
  uint32_t fanout = 8;
};

// `input` is valid (Validate) and outlives the problem.
Problem MakeProblem(const PlanInput& input);

// Where the user leaves it to the planner, a result keeps the entries of all workers, but no more
// than this share of the tensors' elements. Where workers send few entries, dropping some of them
// costs more accuracy than where they send many; and the share bounds the bytes of a result in any
// world (docs/sparse.md, Convergence).
constexpr double kResultDensity = 0.01;
// Group::keep of a group of that density.
double KeepOf(const PlanInput& input, double density);
// Entries of results as a multiple of those that a worker sends, over all sparse tensors.
double ResultMultiple(const PlanInput& input);

// Seconds of a sparse group of k entries, without selecting them.
double TreeGroupSeconds(const Problem& problem, uint64_t k);
// Bytes of the tensors, dense.
double RingBytes(const Problem& problem, const std::vector<uint32_t>& tensors);
// Seconds for which a group occupies its lane, and the delay that follows.
double SecondsOf(const Problem& problem, const Group& group);
double DelayOf(const Problem& problem, const Group& group);

// The codec that makes a ring message of these bytes cheapest; ties go to the first allowed.
const CodecCost& BestRingCodec(const Problem& problem, double bytes);

// A dense lane over the tensors listed (indices into the table).
LaneInput RingLane(const Problem& problem, const std::vector<uint32_t>& tensors);

// Runs over `tensors` as groups on the ring.
std::vector<Group> RingGroups(const Problem& problem, const std::vector<uint32_t>& tensors,
                              const Grouping& grouping);

// Sum of EntriesOf over the tensors.
uint64_t EntriesOf(const std::vector<TensorSpec>& table, const std::vector<uint32_t>& tensors,
                   double density);

// Splits what has two types of elements, sorts by start and sets the prediction.
Plan Finish(const std::string& planner, const Problem& problem, std::vector<Group> groups);

// Backward time of each tensor's layer: the gaps between ready times.
std::vector<double> BackwardSeconds(const Problem& problem);
// Forward time of each tensor's layer: measured, else shared out like backward.
std::vector<double> ForwardSeconds(const Problem& problem);

// Selecting tensor t's entries: measured, else modelled.
double SelectionSeconds(const Problem& problem, uint32_t tensor);

// A group up the tree; times and reason are the caller's.
Group TreeGroup(const Problem& problem, std::vector<uint32_t> tensors, double density);

// `tensors` (in ready order) up the tree: those whose entries take longer than a start-up alone,
// the others merged as their lane's exact plan does, if of one density, and with no more elements
// than a group may have.
std::vector<Group> TreeGroups(const Problem& problem, const std::vector<uint32_t>& tensors);

// Cuts runs where a sparse group would have more elements than it may.
std::vector<size_t> CapElements(const Problem& problem, const std::vector<uint32_t>& tensors,
                                const std::vector<size_t>& lasts);

// The strategies that are more than one dense lane; each in its own file.
Plan PlanAsc(const Problem& problem);
Plan PlanLags(const Problem& problem);
Plan PlanOmgs(const Problem& problem, bool exact);
Plan PlanDear(const Problem& problem);
Plan PlanHybrid(const Problem& problem);
Plan PlanFirst(const Problem& problem);

}  // namespace ringwood
