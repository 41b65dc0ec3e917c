// The members of one epoch by node: workers in the order of their ranks, then reducers. In an
// elastic epoch ranks are missing: a node is the number in the epoch, a rank what the process was
// started as. A value: it never changes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/admission.h"
#include "server/coordinator/event.h"

namespace ringwood {

class Roster {
 public:
  // In node order, `world` workers first. Labels name ranks. `on_trial`: see v1::Member.
  Roster(std::vector<v1::JoinRequest> members, uint32_t world, std::vector<uint32_t> on_trial = {})
      : members_(std::move(members)), world_(world), on_trial_(std::move(on_trial)) {}

  uint32_t world() const { return world_; }  // workers
  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  const v1::JoinRequest& member(uint32_t node) const { return members_[node]; }

  bool IsReducer(uint32_t node) const { return members_[node].role() == v1::ROLE_REDUCER; }
  bool Is(uint32_t node, uint64_t incarnation) const {
    return node < size() && members_[node].incarnation() == incarnation;
  }
  bool Has(v1::Role role, uint32_t rank) const;  // some process of this rank
  // The node of this process.
  std::optional<uint32_t> Find(v1::Role role, uint32_t rank, uint64_t incarnation) const;
  std::string Label(uint32_t node) const;  // "rank 2 (host h1)"; "node 9" for none of them
  std::vector<ServerLimit> Servers() const;
  std::vector<std::string> Hosts() const;  // of all nodes, as the launcher calls them
  // The roster as it is sent to members.
  void AddTo(v1::JoinResponse* welcome) const;

 private:
  std::vector<v1::JoinRequest> members_;
  uint32_t world_;
  std::vector<uint32_t> on_trial_;
};

}  // namespace ringwood
