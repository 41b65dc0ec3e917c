// The cut of a list to its first entries of the selection order: find the last key that stays, then
// keep what is not behind it. Vectors through Highway; every instruction set gives the same.
#pragma once

#include <cstdint>

namespace ringwood {

// The key of rank k (1 = the largest) among the keys of `values`, and how many are strictly larger.
// 1 <= k <= count. A histogram of the upper 11 bits, then of 10 and 10 bits of those that agree
// with the k-th so far.
struct KthKey {
  uint32_t key = 0;
  uint64_t larger = 0;
};
KthKey FindKthKey(const float* values, uint64_t count, uint64_t k);

// Moves the entries whose key is above `key`, and the first `ties` of those that have exactly this
// key, to the front, in their order. Returns how many there are.
uint64_t KeepAbove(uint32_t key, uint64_t ties, uint32_t* index, float* value, uint64_t count);
uint64_t KeepAbovePlain(uint32_t key, uint64_t ties, uint32_t* index, float* value, uint64_t count);

}  // namespace ringwood
