// A reducer node's side of the tree: adds its children's entries, selects once, asks its parent
// (or, at the root, decides), and answers every child with the result and one accepted bit an
// entry.
//
// Stateless between rounds: nothing is lost when an entry is dropped here, because its bit stays 0
// all the way down and the worker keeps it. An entry is accepted iff it survived here and was
// accepted above.
//
// Between two rounds peers may leave in order, so a lost child is no failure by itself: it becomes
// one when somebody waits, that is, when another child has sent its entries of the round or when
// nobody is left who could.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "sparse/reducer/part.h"
#include "sparse/tree.h"
#include "transport/transport.h"

namespace ringwood {

// Everything on the transport's loop thread. The transport must outlive its last callback (Close
// first, or destroy the Reducer first: both are fine).
class Reducer {
 public:
  // `on_error` hears the first failure, once; the reducer has stopped then. It may destroy the
  // Reducer.
  Reducer(Transport* transport, const TreeShape& shape, int node, std::vector<SparseGroup> groups,
          std::function<void(Status)> on_error);
  ~Reducer();

  // Serves every group for first_round, first_round + 1, …, each group at its own pace. Every
  // worker must climb every group in every round.
  void Start(uint64_t first_round);

 private:
  class Service;
  std::shared_ptr<Service> service_;  // shared with the callbacks that the transport still owes
};

}  // namespace ringwood
