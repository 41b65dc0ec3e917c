// A small file in a store's directory. A database needs some room to remove anything; where the
// disk has none this file goes first.
#pragma once

#include <cstdint>
#include <string>

namespace ringwood {

inline constexpr uint64_t kBallastBytes = 1 << 20;  // far more than a removal writes

// Makes it where it is missing and the disk has plenty of room.
void KeepBallast(const std::string& directory);

// Removes it where the disk has less room than that.
void FreeBallastIfFull(const std::string& directory);

}  // namespace ringwood
