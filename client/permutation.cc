#include "client/permutation.h"

#include "base/check.h"
#include "base/random.h"

namespace ringwood {

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size) {
  RW_CHECK(size >= 1 && size <= uint64_t{1} << 62);
  while (uint64_t{1} << (2 * half_bits_) < size) ++half_bits_;
  Random random(key);
  for (uint64_t& each : keys_) each = random.Next();
}

uint64_t Permutation::operator()(uint64_t position) const {
  RW_CHECK(position < size_);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t value = position;
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (const uint64_t key : keys_) {
      const uint64_t mixed = left ^ (Random(key ^ right).Next() & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits_ | right;
  } while (value >= size_);
  return value;
}

}  // namespace ringwood
