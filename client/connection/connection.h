// A worker's membership of one epoch: joined, with heartbeats and data plane, until it fails or
// leaves. Owns the net and the compute loop, on which most of a session runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/checkpoint/store_client.h"
#include "client/connection/control.h"
#include "client/exchange/accelerator.h"
#include "client/exchange/exchange.h"
#include "client/options/options.h"
#include "timeline/observer.h"
#include "transport/fabric.h"

namespace ringwood {

// The parts of a connection; grpc/parts.h makes the real ones, tests make their own.
struct Parts {
  std::function<StatusOr<std::unique_ptr<Fabric>>(Loop* net)> make_fabric;
  std::unique_ptr<Control> control;
  std::unique_ptr<StoreClient> store;
  std::vector<std::unique_ptr<Observer>> observers;  // the session reports its events to them
  Accelerator accelerator = {};
};

class Connection {
 public:
  // Blocks until the world is complete, at most the join timeout.
  static StatusOr<std::unique_ptr<Connection>> Open(const SessionOptions& options, Parts parts);

  // Ends heartbeats, transport and loops, in this order; no callback runs afterwards. Does not
  // leave: without Leave the others see a death.
  ~Connection();

  Loop* net() { return net_.get(); }
  Loop* compute() { return compute_.get(); }
  Transport* transport() { return transport_.get(); }  // for use on the net loop
  const std::string& wire() const { return wire_; }    // Fabric::Wire
  Control* control() { return control_.get(); }
  StoreClient* store() { return store_.get(); }
  const Place& place() const { return place_; }
  // The cost that schedules are chosen by from here on: equal on all ranks, between two rounds.
  void TakeCost(const HopCost& cost) { place_.cost = cost; }
  const v1::JoinResponse& joined() const { return joined_; }
  const Accelerator& accelerator() const { return accelerator_; }
  // The ring of this epoch for device tensors; ends with the transport. Once.
  Status OpenDeviceRing(const DeviceRingOptions& options);
  DeviceRing* device_ring() { return device_ring_.get(); }  // for use on the net loop
  uint64_t incarnation() const { return incarnation_; }

  // `listener` runs once, when the connection fails; at once if it has. Any thread then.
  void Listen(std::function<void(const Status&)> listener);

  // OK, or the first failure.
  Status status();

  // Ends the epoch on this rank: the first reason is kept, and pending transfers are answered with
  // it. Any thread.
  void Fail(const Status& reason);

  // A broken transfer is often the first sign of a death, which the coordinator names a moment
  // later. If `status` may be such a sign, waits for the name, at most the failure timeout. A peer
  // that was silent for that time is named already.
  Status Named(const Status& status);

  // After Fail: returns when both loops have run or dropped everything posted before.
  void Drain();

  // Tells the coordinator; with `failure` that this rank failed and why.
  Status Leave(const std::string& failure);

 private:
  Connection(const SessionOptions& options, Parts parts);
  Status Join(const SessionOptions& options);
  Status Connect(double join_timeout);
  void Announce(const Status& failure);  // from the coordinator

  const uint64_t incarnation_;
  Place place_;
  v1::JoinResponse joined_;
  std::unique_ptr<Loop> compute_;
  std::unique_ptr<Loop> net_;
  std::unique_ptr<Fabric> fabric_;  // destroyed on net_
  std::string wire_;
  std::unique_ptr<Transport> transport_;     // touched and destroyed on net_
  std::unique_ptr<DeviceRing> device_ring_;  // touched and destroyed on net_
  const Accelerator accelerator_;
  std::unique_ptr<StoreClient> store_;
  std::unique_ptr<Control> control_;

  absl::Mutex mutex_;
  Status status_ ABSL_GUARDED_BY(mutex_);
  Status announced_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const Status&)> listener_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
