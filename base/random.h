// Randomness arrives as an argument: a seeded generator, the same on every machine.
#pragma once

#include <cstdint>

namespace ringwood {

// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, passes BigCrush, good for seeds and
// tests.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound); bound > 0. The bias of the modulo is below bound / 2^64.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// A number from the kernel's random source, unique to this process; for incarnations, jobs, tokens.
uint64_t Unpredictable();

}  // namespace ringwood
