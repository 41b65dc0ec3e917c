// A reducer node's side of the tree: adds its children's entries, selects once, asks its parent
// (or, at the root, decides), and answers every child with the result and one counted bit an entry.
//
// Stateless between rounds: nothing is lost when an entry is dropped here, because its bit stays 0
// all the way down and the worker keeps it. An entry counts iff it survived here and counted above.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sparse/tree.h"
#include "transport/transport.h"

namespace ringwood {

struct ReducerGroup {
  uint32_t group = 0;
  uint64_t elements = 0;
  uint64_t k = 0;  // entries that each worker sends at most, and of a gtopk result
  std::string codec = "block16/fp32";  // workers to first reducer; above and down: its exact form
  std::string merge = "gtopk";         // "gtopk": keep k of the sum; "union": keep all
};

// Most bytes that a Reducer with these groups holds at any time; 0 for a node that has no children.
uint64_t ReducerMemoryBound(const TreeShape& shape, int node,
                            const std::vector<ReducerGroup>& groups);

// Everything on the transport's loop thread. The transport must outlive its last callback (Close
// first, or destroy the Reducer first: both are fine).
class Reducer {
 public:
  // `on_error` hears the first failure, once; the reducer has stopped then. It may destroy the
  // Reducer.
  Reducer(Transport* transport, const TreeShape& shape, int node, std::vector<ReducerGroup> groups,
          std::function<void(Status)> on_error);
  ~Reducer();

  // Serves every group for first_round, first_round + 1, …, each group at its own pace. Every
  // worker must climb every group in every round.
  void Start(uint64_t first_round);

  uint64_t MemoryBytes() const;  // ReducerMemoryBound of what it serves

 private:
  class Service;
  std::shared_ptr<Service> service_;  // shared with the callbacks that the transport still owes
};

}  // namespace ringwood
