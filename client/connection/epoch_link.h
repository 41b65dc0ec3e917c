// A worker's membership of one epoch: joined, with heartbeats and data plane, until it fails or
// leaves. It can be destroyed, and another one made of the same Connection: whoever outlives an
// epoch gets the link as an argument, and keeps no pointer to it or to what is in it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/connection/collectives.h"
#include "client/connection/communicator.h"
#include "client/connection/connection.h"
#include "client/exchange/exchange.h"
#include "client/options/options.h"
#include "transport/fabric.h"

namespace ringwood {

class EpochLink {
 public:
  // Enter and Connect, at most the join timeout each.
  static StatusOr<std::unique_ptr<EpochLink>> Join(Connection* connection,
                                                   const SessionOptions& options);

  // Blocks until the world is complete and the coordinator has decided from what it starts. The
  // connection outlives the link. `held`: what a member of the epoch before has; the link of that
  // one may still stand, failed, and beats on meanwhile. Null: this process was in none.
  static StatusOr<std::unique_ptr<EpochLink>> Enter(Connection* connection,
                                                    const SessionOptions& options, Duration timeout,
                                                    const v1::Held* held);
  // Starts heartbeats and data plane. Once; the connection has no other link then.
  Status Connect(Duration timeout);

  // Ends heartbeats and transport, in this order; no callback of this epoch runs afterwards. Does
  // not leave: without Leave the others see a death.
  ~EpochLink();

  Connection* connection() const { return connection_; }
  const v1::JoinResponse& joined() const { return joined_; }
  // Where a rank's stripes of checkpoints go; empty: to the coordinator's store.
  std::string StoreOf(uint32_t rank) const;
  Duration grace() const { return grace_; }  // for a coordinator that is lost
  uint64_t epoch() const { return joined_.epoch(); }
  bool elastic() const { return joined_.elastic(); }
  bool Holds(int rank) const;                          // that rank has the base, or applies it
  const std::string& wire() const { return wire_; }    // Fabric::Wire
  Transport* transport() { return transport_.get(); }  // for use on the net loop
  Collectives* collectives() { return &collectives_; }
  // Of a fixed job. `number` is the same on all members and no other communicator's, not even an
  // earlier one's. Any thread; talks to nobody.
  StatusOr<std::shared_ptr<Communicator>> MakeCommunicator(const std::vector<int>& ranks,
                                                           uint32_t number);
  const Place& place() const { return place_; }
  // This process as logs and errors name it: by the rank that it was started as, which an elastic
  // job may number otherwise in this epoch.
  int slot() const { return slot_; }
  int SlotOf(int rank) const { return slots_[rank]; }
  // The cost that schedules are chosen by from here on: equal on all ranks, between two rounds.
  void TakeCost(const HopCost& cost) { place_.cost = cost; }
  // The ring for device tensors; ends with the transport. Once.
  Status OpenDeviceRing(const DeviceRingOptions& options);
  DeviceRing* device_ring() { return device_ring_.get(); }  // for use on the net loop

  // `listener` runs once, when the epoch fails; at once if it has. Any thread then.
  void Listen(std::function<void(const Status&)> listener);

  // OK, or the first failure.
  Status status();

  // Ends the epoch on this rank: the first reason is kept, and pending transfers are answered with
  // it. Any thread.
  void Fail(const Status& reason);

  // A broken transfer is often the first sign of a death, which the coordinator names a moment
  // later. If `status` may be such a sign, waits for the name, at most the failure timeout, and in
  // an elastic job, which goes on without it, a moment. A peer that was silent for that time is
  // named already. After Leave nobody is named any more.
  Status Named(const Status& status);

  // Whether the job goes on without this epoch: it is elastic, and the failure is neither one that
  // the coordinator calls final nor a fault of this process.
  bool Recovers();

  // Tells the coordinator; with `failure` that this rank failed and why.
  Status Leave(const std::string& failure);

 private:
  EpochLink(Connection* connection, int slot)
      : connection_(connection), slot_(slot), collectives_(this) {}
  Status TakePlace(const SessionOptions& options);
  void Announce(const Status& failure, bool recovers);  // from the coordinator

  Connection* const connection_;
  const int slot_;
  v1::JoinResponse joined_;
  Duration grace_{};
  bool attends_ = false;
  Place place_;
  std::vector<int> slots_;  // by rank
  std::string wire_;
  std::unique_ptr<Fabric> fabric_;           // destroyed on the net loop
  std::unique_ptr<Transport> transport_;     // touched and destroyed on the net loop
  std::unique_ptr<DeviceRing> device_ring_;  // touched and destroyed on the net loop
  Collectives collectives_;

  absl::Mutex mutex_;
  Status status_ ABSL_GUARDED_BY(mutex_);
  Status announced_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;                 // or about to
  std::set<uint32_t> communicators_ ABSL_GUARDED_BY(mutex_);  // their numbers
  bool announced_recovers_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void(const Status&)> listener_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
