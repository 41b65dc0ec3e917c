#include "plan/predict/sharded.h"

#include <algorithm>
#include <vector>

namespace ringwood {
namespace {

// In the order of the stages in which their messages meet server s: worker w comes in stage
// (s - w) mod S.
std::vector<int> WorkersInStageOrder(int workers, int servers, int server) {
  std::vector<int> order(workers);
  for (int w = 0; w < workers; ++w) order[w] = w;
  const auto stage = [&](int w) { return ((server - w) % servers + servers) % servers; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return stage(a) < stage(b); });
  return order;
}

}  // namespace

Schedule ShardedSchedule(int workers, int servers, int node) {
  Schedule schedule;
  if (workers <= 1 || servers < 1) return schedule;
  if (node < workers) {
    for (const Op op : {Op::kSend, Op::kReceive}) {
      for (int i = 0; i < servers; ++i) {
        const int server = (node + i) % servers;
        schedule.push_back({op, workers + server, server});
      }
    }
    return schedule;
  }
  const int server = node - workers;
  const std::vector<int> order = WorkersInStageOrder(workers, servers, server);
  for (const int w : order) schedule.push_back({Op::kReceiveReduce, w, server});
  for (const int w : order) schedule.push_back({Op::kSend, w, server});
  return schedule;
}

}  // namespace ringwood
