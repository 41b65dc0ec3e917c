#include "dense/cut.h"

#include <algorithm>

namespace ringwood {

std::vector<Range> CutEvenly(size_t count, int parts) {
  std::vector<Range> ranges;
  for (int part = 0; part < parts; ++part) ranges.push_back(EvenPart(count, parts, part));
  return ranges;
}

Range EvenPart(size_t count, int parts, int part) {
  const size_t at = static_cast<size_t>(part);
  const size_t share = count / parts;
  const size_t rest = count % parts;  // the first `rest` ranges have one element more
  return {at * share + std::min(at, rest), share + (at < rest ? 1 : 0)};
}

bool AreLengths(const std::vector<uint64_t>& counts, size_t count, int parts) {
  for (const uint64_t each : counts) {
    if (each > count) return false;
    count -= each;
  }
  return count == 0 && counts.size() == static_cast<size_t>(parts);
}

std::vector<Range> CutBy(const std::vector<uint64_t>& counts) {
  std::vector<Range> ranges;
  size_t begin = 0;
  for (const uint64_t count : counts) {
    ranges.push_back({begin, count});
    begin += count;
  }
  return ranges;
}

}  // namespace ringwood
