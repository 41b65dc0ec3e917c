// Recursive doubling: all-reduce in ⌈log2 P⌉ exchanges of the whole tensor, for short ones (Thakur,
// Rabenseifner, Gropp 2005: "Optimization of collective communication operations in MPICH").
//
// One slot. P = 4:  0↔1, 2↔3, then 0↔2, 1↔3. With P not a power of two, the ranks beyond the
// largest power C below P hand their values to rank-C first and get the result from there last: P =
// 5:  4→0,  0↔1, 2↔3,  0↔2, 1↔3,  0→4.
//
// Order of additions: a balanced tree over the ranks 0..C-1 (the values beyond C joined to those of
// rank-C), so both sides of an exchange compute the same bits.
#pragma once

#include "transport/schedule.h"

namespace ringwood {

Schedule RecursiveDoubling(int rank, int world);

}  // namespace ringwood
