// Cuts a list to the first entries of the selection order: finds the last key that stays, then
// keeps the entries that are not behind it. Vectors through Highway; all instruction sets give the
// same.
#pragma once

#include <cstdint>

#include "sparse/entries.h"

namespace ringwood {

// Bounds of the keys of some values: least <= key <= most; least > most of none.
struct KeyRange {
  uint32_t least = ~uint32_t{0};
  uint32_t most = 0;
};
KeyRange RangeOf(const float* values, uint64_t count);

// The key of rank k (1 = the largest) among the keys of `values`, and how many are strictly larger.
// 1 <= k <= count; all keys lie in `range`. A histogram of 2048 bins over the range, then over the
// bin that has rank k, until few are left: one look at most values.
struct KthKey {
  uint32_t key = 0;
  uint64_t larger = 0;
};
KthKey FindKthKey(const float* values, uint64_t count, uint64_t k, KeyRange range);

// Where entries go.
struct EntryArrays {
  uint32_t* index = nullptr;
  float* value = nullptr;
};

// Writes the entries whose key is above `key`, and the first `ties` of those that have exactly this
// key, to `to`, in their order; returns how many there are. `to` may be where `from` begins; else
// kKeepOverhang more elements may be written than stay.
constexpr uint64_t kKeepOverhang = 16;
uint64_t KeepAbove(uint32_t key, uint64_t ties, const EntriesView& from, EntryArrays to);
uint64_t KeepAbovePlain(uint32_t key, uint64_t ties, const EntriesView& from, EntryArrays to);

}  // namespace ringwood
