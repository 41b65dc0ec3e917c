// Which stores share the checkpoints of an epoch, and which of them a rank's stripe goes to: rules
// that ranks and servers have in common. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringwood {

// A further store; the main one is the coordinator's.
struct StorePlace {
  uint32_t server = 0;  // in whose process it is: its number among the reducers
  std::string host;
  std::string address;  // HOST:PORT where it is called
  bool operator==(const StorePlace&) const = default;
};

// Of the members of an epoch, as JoinResponse and EpochRecord have them: in their order, which is
// that of the servers. A world of fewer ranks than stores uses no more stores than ranks.
template <typename Members>
std::vector<StorePlace> FurtherStores(const Members& members, size_t world) {
  std::vector<StorePlace> places;
  for (const auto& member : members) {
    if (member.store_address().empty() || places.size() + 1 >= world) continue;
    places.push_back({member.rank(), member.host(), member.store_address()});
  }
  return places;
}

// 0: the main store; k: the k-th further one.
inline uint32_t StoreOfRank(uint32_t rank, size_t further) {
  return rank % static_cast<uint32_t>(further + 1);
}

// How many ranks bring their stripes to a store.
inline uint32_t RanksOfStore(uint32_t store, size_t further, uint32_t world) {
  const auto stores = static_cast<uint32_t>(further + 1);
  return store >= world ? 0 : (world - store - 1) / stores + 1;
}

}  // namespace ringwood
