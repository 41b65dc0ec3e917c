// What each node does in one sparse exchange, as a value: climb.h and reducer.h run it, the
// simulator plays it (plan/predict/simulate.h).
//
// Entries climb their range's tree in chunks and are reduced on the way: merged, and unless the
// merge is a union, cut to the largest. The result comes down chunk by chunk, then one accepted bit
// for each entry that went up. A worker sends to all ranges before it waits for the first of them.
//
//     worker                       reducer                           root
//     send     entries             receive+reduce  entries …         receive+reduce  entries …
//     receive  result              send     entries   (parent)
//     receive  accepted             receive  result    (parent)
//                                  send     result  …                send     result  …
//                                  receive  accepted   (parent)
//                                  send     accepted …                send     accepted …
//
// Receives that follow each other may come in any order, and more than one may be asked for at
// once. A reducer needs all of its children's entries before it sends any, because it selects among
// all of them; down, each slot is passed on as soon as it is there. Where hosts gather, a reducer
// first gathers for all other roots, then is one itself, then passes the others' results down.
#pragma once

#include <cstdint>
#include <vector>

#include "sparse/tree.h"
#include "transport/frame.h"
#include "transport/schedule.h"

namespace ringwood {

// A slot of such a schedule: a message of entries has one for each chunk.
struct TreeSlot {
  enum class Kind : uint8_t { kEntries, kResult, kAccepted };
  Kind kind = Kind::kEntries;
  int shard = 0;
  int chunk = 0;  // accepted bits are in one piece
  bool operator==(const TreeSlot&) const = default;
};

// Slots are numbered shard by shard.
constexpr int SlotsOfShard(int chunks) { return 2 * chunks + 1; }
int NumberOf(const TreeSlot& slot, int chunks);
TreeSlot SlotOfNumber(int number, int chunks);

// How the message of a slot is named: each range has names for these.
constexpr uint32_t kEntriesSlot = 0;    // up: entries; down: the result
constexpr uint32_t kAcceptedSlot = 1;   // down: accepted bits
constexpr uint32_t kHistogramSlot = 2;  // between the roots of ranges, one slot a level
constexpr uint32_t kSlotsOfRange = 8;
MessageName NameIn(uint64_t round, uint32_t group, const TreeSlot& slot);

// Empty for idle nodes. Without reducers every worker sends slot = its rank to every other, in one
// piece.
Schedule TreeSchedule(const TreeShape& shape, int chunks, int node);
std::vector<Schedule> TreeSchedules(const TreeShape& shape, int chunks);  // one a node

// One level of the merge "exact" at the root of a range: its histogram, slot = its shard, goes to
// all other roots. How many levels follow, the values decide, so this is no part of the above.
Schedule LevelSchedule(const TreeShape& shape, int shard);

}  // namespace ringwood
