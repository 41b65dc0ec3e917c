// What a worker's process keeps from epoch to epoch: its incarnation, the loops, the way to the
// coordinator and to the store, the device, and how to make an end of the data plane. An EpochLink
// is made of it for each epoch; this keeps no pointer to one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "client/checkpoint/store_client.h"
#include "client/connection/control.h"
#include "client/connection/progress.h"
#include "client/connection/tally.h"
#include "client/exchange/accelerator.h"
#include "client/updates/update_client.h"
#include "timeline/observer.h"
#include "transport/fabric.h"

namespace ringwood {

// The parts of a connection; grpc/parts.h makes the real ones, tests make their own.
struct Parts {
  std::function<StatusOr<std::unique_ptr<Fabric>>(Loop* net)> make_fabric;  // one an epoch
  std::unique_ptr<Control> control;
  std::unique_ptr<StoreClient> store;
  std::unique_ptr<UpdateClient> updates = nullptr;   // null: there is no log
  std::vector<std::unique_ptr<Observer>> observers;  // the session reports its events to them
  Accelerator accelerator = {};
};

class Connection {
 public:
  // `checkpoint_bytes`: most that a copy for a checkpoint may take, for reports.
  explicit Connection(Parts parts, uint64_t checkpoint_bytes = 0);
  // Cancels calls to the store and ends the loops; no callback runs afterwards. The links of its
  // epochs are gone by then.
  ~Connection();

  uint64_t incarnation() const { return incarnation_; }
  Loop* net() { return net_.get(); }
  Loop* compute() { return compute_.get(); }
  Control* control() { return control_.get(); }
  Progress* progress() { return &progress_; }
  Tally* tally() { return &tally_; }
  StoreClient* store() { return store_.get(); }
  UpdateClient* updates() { return updates_.get(); }
  const Accelerator& accelerator() const { return accelerator_; }
  StatusOr<std::unique_ptr<Fabric>> MakeFabric() { return make_fabric_(net_.get()); }

  // Returns when both loops have run or dropped everything posted before. After EpochLink::Fail
  // nothing of the epoch runs on them then.
  void Drain();

 private:
  const uint64_t incarnation_;
  const std::function<StatusOr<std::unique_ptr<Fabric>>(Loop* net)> make_fabric_;
  const Accelerator accelerator_;
  std::unique_ptr<Loop> compute_;
  std::unique_ptr<Loop> net_;
  std::unique_ptr<StoreClient> store_;
  std::unique_ptr<UpdateClient> updates_;
  Progress progress_;  // outlives the heartbeats, as does the tally
  Tally tally_;
  std::unique_ptr<Control> control_;
};

}  // namespace ringwood
