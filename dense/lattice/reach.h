// What a block of codes.h reaches: about the largest magnitude that any rank had in it in the last
// rounds, of which its scale is made, and the byte by which a rank tells what it sees. Pure; the
// kernels of devices have it, too.
#pragma once

#include <cstdint>

namespace ringwood {

// The upper half of an fp32 magnitude's bits, rounded up; it orders like the magnitude, and an
// octave is 128 of it.
using BlockReach = uint16_t;
// Below it, 2^-96, nothing is sent: scales and their inverses stay normal numbers.
constexpr BlockReach kLeastReach = (127 - 96) << 7;
// Above it a sum of as many ranks' codes as there can be might overflow.
constexpr BlockReach kLargestReach = (127 + 115) << 7;
constexpr BlockReach kNoReach = 0x7f80;  // of what is no number, or too large: above kLargestReach

// A rank's word for its largest |v| of a block, rounded up. Words are places above half of the
// present reach: 128 of a sixteenth of an octave each, then one an octave. Where nothing was sent
// yet all are octaves, above half of kLeastReach. What is lower is 0, what is no number kNoNumber.
using ReachWord = uint8_t;
constexpr ReachWord kNoNumber = 255;

struct ReachScale {
  int base = 0;  // of the word 0
  int fine = 0;  // so many words are sixteenths
};
constexpr ReachScale ReachScaleOf(BlockReach reach) {
  if (reach < kLeastReach) return {kLeastReach - 128, 0};
  return {reach - 128, 128};
}
// `largest`: the bits of |v|. `less`: by so much it is told lower.
constexpr ReachWord ReachWordOf(uint32_t largest, BlockReach reach, BlockReach less) {
  const uint32_t seen = (largest + 0xffffu) >> 16;
  if (seen > kLargestReach) return kNoNumber;
  const ReachScale scale = ReachScaleOf(reach);
  const int above = static_cast<int>(seen) - less - scale.base;
  if (above <= 0) return 0;
  const int beyond = above - 8 * scale.fine;
  const int word = beyond <= 0 ? (above + 7) / 8 : scale.fine + (beyond + 127) / 128;
  return static_cast<ReachWord>(word < kNoNumber ? word : kNoNumber - 1);
}
// Of a block after a round: `word` is the largest of all ranks. In the logarithm a reach falls by a
// quarter of the way, and by a quarter of an octave at most: it stays near the largest of several
// rounds, and gets over one that was a thousand times as large in forty.
constexpr BlockReach NextReach(BlockReach reach, ReachWord word) {
  if (word == kNoNumber) return kNoReach;
  const ReachScale scale = ReachScaleOf(reach);
  const int fine = word < scale.fine ? word : scale.fine;
  int seen = scale.base + 8 * fine + 128 * (word - fine);
  if (word == 0 && scale.fine == 0) seen = 0;  // as little as there may be
  if (seen >= reach) return static_cast<BlockReach>(seen);
  constexpr int kMostFall = 1 << 5;
  const int way = (reach - seen) / 4;
  const int fall = way < kMostFall ? way : kMostFall;
  return reach > fall ? static_cast<BlockReach>(reach - fall) : BlockReach{0};
}

}  // namespace ringwood
