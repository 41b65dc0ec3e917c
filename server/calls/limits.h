// How large a job may be. Both bound every table of the coordinator and of the store.
#pragma once

#include <cstdint>

namespace ringwood {

// A job larger than this is refused.
inline constexpr uint32_t kMaxWorld = 4096;
inline constexpr uint32_t kMaxServers = 256;

// Reducers that ranks bring are numbered behind all others: that of rank r is kFirstOfRanks + r.
inline constexpr uint32_t kFirstOfRanks = kMaxServers;

}  // namespace ringwood
