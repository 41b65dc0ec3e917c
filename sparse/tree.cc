#include "sparse/tree.h"

#include <algorithm>

#include "base/check.h"

namespace ringwood {
namespace {

// Workers of each used reducer: fills the reducers with the fewest children first.
std::vector<int> Fill(int workers, int used, int fanout) {
  std::vector<int> children(used, 0);
  for (int r = 1; r < used; ++r) ++children[(r - 1) / fanout];
  std::vector<int> own(used, 0);
  for (int w = 0; w < workers; ++w) {
    // Later reducers are deeper: on a tie they come first, so that the root carries least.
    int least = used - 1;
    for (int r = used - 2; r >= 0; --r) {
      if (children[r] < children[least]) least = r;
    }
    ++children[least];
    ++own[least];
  }
  return own;
}

bool EveryoneHasTwo(const std::vector<int>& own, int fanout) {
  std::vector<int> children = own;
  for (size_t r = 1; r < own.size(); ++r) ++children[(r - 1) / fanout];
  return *std::min_element(children.begin(), children.end()) >= 2;
}

// The whole tree as a list of parents; small (nodes of one epoch), so it is made anew for each
// question.
std::vector<int> Parents(const TreeShape& shape) {
  RW_CHECK(shape.workers >= 1 && shape.reducers >= 0);
  std::vector<int> parents(shape.workers + shape.reducers, -1);
  if (shape.workers == 1 || shape.reducers == 0) return parents;
  const int fanout = std::max(shape.fanout, 2);
  int used = std::min(shape.reducers, shape.workers - 1);
  std::vector<int> own = Fill(shape.workers, used, fanout);
  while (used > 1 && !EveryoneHasTwo(own, fanout)) own = Fill(shape.workers, --used, fanout);
  for (int r = 1; r < used; ++r) parents[shape.workers + r] = shape.workers + (r - 1) / fanout;
  int worker = 0;
  for (int r = 0; r < used; ++r) {
    for (int i = 0; i < own[r]; ++i) parents[worker++] = shape.workers + r;
  }
  return parents;
}

}  // namespace

int ParentOf(const TreeShape& shape, int node) { return Parents(shape).at(node); }

std::vector<int> ChildrenOf(const TreeShape& shape, int node) {
  const std::vector<int> parents = Parents(shape);
  std::vector<int> children;
  for (int other = 0; other < static_cast<int>(parents.size()); ++other) {
    if (parents[other] == node) children.push_back(other);
  }
  return children;
}

int WorkersUnder(const TreeShape& shape, int node) {
  const std::vector<int> parents = Parents(shape);
  int count = 0;
  for (int worker = 0; worker < shape.workers; ++worker) {
    int at = worker;
    while (at != -1 && at != node) at = parents[at];
    if (at == node) ++count;
  }
  return count;
}

Schedule TreeSchedule(const TreeShape& shape, int node) {
  Schedule schedule;
  if (shape.workers == 1) return schedule;
  if (shape.reducers == 0) {
    for (int shift = 1; shift < shape.workers; ++shift) {
      const int from = (node + shape.workers - shift) % shape.workers;
      schedule.push_back({Op::kSend, (node + shift) % shape.workers, node});
      schedule.push_back({Op::kReceive, from, from});
    }
    return schedule;
  }
  const int parent = ParentOf(shape, node);
  const std::vector<int> children = ChildrenOf(shape, node);
  for (int child : children) schedule.push_back({Op::kReceiveReduce, child, 0});
  if (parent != -1) {
    schedule.push_back({Op::kSend, parent, 0});
    schedule.push_back({Op::kReceive, parent, 0});
  }
  for (int child : children) schedule.push_back({Op::kSend, child, 0});
  return schedule;
}

}  // namespace ringwood
