// A shuffled order that is computed, not stored: a bijection of [0, size), another one for each
// key.
//
// A Feistel network over the smallest even number of bits that counts to `size`; a number that
// lands beyond `size` goes through the network again until it does not (cycle walking: Black and
// Rogaway 2002), four times at most on average. For shuffling training data, not for secrets.
#pragma once

#include <cstdint>

namespace ringwood {

class Permutation {
 public:
  // size: 1 to 2^62.
  Permutation(uint64_t size, uint64_t key);
  uint64_t operator()(uint64_t position) const;  // position < size; the result too

 private:
  static constexpr int kRounds = 8;  // few bits mix slowly: small data sets need more than four

  uint64_t size_;
  int half_bits_ = 1;
  uint64_t keys_[kRounds];
};

}  // namespace ringwood
