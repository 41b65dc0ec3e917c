// Nodes in one process, each on its own Loop (or sharing one): for tests and simulations of the
// layers above. Behaves like the network transports: payloads are copied in flight, order between
// two nodes is kept, and peers notice a node that closes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "transport/fabric.h"

namespace ringwood {

class InProcessEnd;

// Any thread. Outlives its Fabrics and their Transports; every Loop outlives what was made on it.
class InProcessNetwork {
 public:
  InProcessNetwork() = default;
  InProcessNetwork(const InProcessNetwork&) = delete;
  InProcessNetwork& operator=(const InProcessNetwork&) = delete;

  std::unique_ptr<Fabric> MakeFabric(Loop* loop);

 private:
  friend class InProcessEnd;
  friend class InProcessFabric;
  // Runs `task` with the end of `address` on its loop; false if there is none any more, or `post`
  // refuses.
  bool PostTo(uint64_t address, std::function<void(InProcessEnd&)> task,
              bool (Loop::*post)(Loop::Task));
  void Remove(uint64_t address);

  absl::Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, std::weak_ptr<InProcessEnd>> ends_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
