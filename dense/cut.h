// How elements are cut into slots and shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringwood {

struct Range {
  size_t begin = 0;
  size_t count = 0;
};

// `count` elements in `parts` ranges, one after the other, that differ by one element at most: the
// first ones are longer.
std::vector<Range> CutEvenly(size_t count, int parts);
Range EvenPart(size_t count, int parts, int part);  // one of them

// Whether these are the lengths of `parts` ranges, all of `count` elements together. A sum of them
// that wraps is not taken for one.
bool AreLengths(const std::vector<uint64_t>& counts, size_t count, int parts);

// Ranges of these lengths, one after the other.
std::vector<Range> CutBy(const std::vector<uint64_t>& counts);

}  // namespace ringwood
