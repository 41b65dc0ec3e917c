#include "server/coordinator/roster.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace ringwood {

bool Roster::Has(v1::Role role, uint32_t rank) const {
  return std::any_of(members_.begin(), members_.end(), [&](const v1::JoinRequest& member) {
    return member.role() == role && member.rank() == rank;
  });
}

std::optional<uint32_t> Roster::Find(v1::Role role, uint32_t rank, uint64_t incarnation) const {
  for (uint32_t node = 0; node < size(); ++node) {
    const v1::JoinRequest& member = members_[node];
    if (member.role() == role && member.rank() == rank && member.incarnation() == incarnation) {
      return node;
    }
  }
  return std::nullopt;
}

std::string Roster::Label(uint32_t node) const {
  if (node >= size()) return absl::StrFormat("node %d", node);
  return MemberLabel(members_[node].role(), members_[node].rank(), members_[node].host());
}

std::vector<ServerLimit> Roster::Servers() const {
  std::vector<ServerLimit> servers;
  for (uint32_t node = world_; node < size(); ++node) {
    servers.push_back({Label(node), members_[node].max_memory_bytes()});
  }
  return servers;
}

std::vector<std::string> Roster::Hosts() const {
  std::vector<std::string> hosts;
  for (const v1::JoinRequest& member : members_) hosts.push_back(member.host());
  return hosts;
}

void Roster::AddTo(v1::JoinResponse* welcome) const {
  for (uint32_t node = 0; node < size(); ++node) {
    v1::Member* member = welcome->add_members();
    member->set_node(node);
    member->set_role(members_[node].role());
    member->set_rank(members_[node].rank());
    member->set_host(members_[node].host());
    member->set_fabric_address(members_[node].fabric_address());
    member->set_store_address(members_[node].store_address());
  }
  for (const uint32_t node : on_trial_) {
    welcome->mutable_members(static_cast<int>(node))->set_on_trial(true);
  }
}

}  // namespace ringwood
