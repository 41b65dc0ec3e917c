// The main store's connections to the further ones of its epoch (proto/ringwood/v1/parts.proto).
// Used on the store's loop, on which it also calls back, but for what says otherwise; its calls
// wait on threads of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "proto/access.h"
#include "proto/store_places.h"
#include "ringwood/v1/parts.pb.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/parts.h"

namespace ringwood {

class PartLinks {
 public:
  // `loop` outlives this, until Close.
  PartLinks(Access access, Loop* loop);
  ~PartLinks();

  // From now on these, in their order: the parts from 1 on. What is under way with others ends.
  void SetStores(const std::vector<StorePlace>& places);
  size_t count() const { return links_.size(); }

  // Has every further store gather its part; `part` and `stores` of the request are filled in here.
  using Came = std::function<void(uint32_t part, StatusOr<StoredPart>)>;
  void Gather(const v1::GatherRequest& request, const Came& came);
  // Nobody waits for these parts any more.
  void GiveUp(const CheckpointId& id);

  // Asks each what it has, then has it remove what `orphans` names of that.
  using Choose = std::function<std::vector<CheckpointId>(const std::vector<CheckpointId>& there)>;
  // Of the checkpoints of the main store with this number.
  void Sweep(uint64_t main, const Choose& orphans);

  // Where the store with this number is called; nothing: it has not said so yet, or is not here.
  std::optional<std::string> AddressOf(uint64_t store) const;
  // As somebody has found out who asked a store.
  void Learn(uint64_t store, const std::string& address) { addresses_[store] = address; }

  // Ends all calls; none is made afterwards, and nothing is called back. Not on the loop.
  void Close();

 private:
  class Link;

  const Access access_;
  Loop* const loop_;
  std::vector<std::shared_ptr<Link>> links_;
  std::map<uint64_t, std::string> addresses_;  // by a store's number
};

}  // namespace ringwood
