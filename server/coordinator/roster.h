// The members of one epoch by node: workers by rank, then reducers. A value: it never changes.
#pragma once

#include <string>
#include <vector>

#include "server/coordinator/admission.h"
#include "server/coordinator/event.h"

namespace ringwood {

class Roster {
 public:
  // In node order, `world` workers first.
  Roster(std::vector<v1::JoinRequest> members, uint32_t world)
      : members_(std::move(members)), world_(world) {}

  uint32_t world() const { return world_; }  // workers
  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  const v1::JoinRequest& member(uint32_t node) const { return members_[node]; }

  bool IsReducer(uint32_t node) const { return members_[node].role() == v1::ROLE_REDUCER; }
  bool Is(uint32_t node, uint64_t incarnation) const {
    return node < size() && members_[node].incarnation() == incarnation;
  }
  std::string Label(uint32_t node) const;  // "rank 2 (host h1)"; "node 9" for none of them
  std::vector<ServerLimit> Servers() const;
  // The roster as it is sent to members.
  void AddTo(v1::JoinResponse* welcome) const;

 private:
  std::vector<v1::JoinRequest> members_;
  uint32_t world_;
};

}  // namespace ringwood
