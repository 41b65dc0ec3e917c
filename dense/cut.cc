#include "dense/cut.h"

#include <algorithm>

namespace ringwood {

std::vector<Range> CutEvenly(size_t count, int parts) {
  std::vector<Range> ranges;
  const size_t share = count / parts;
  const size_t rest = count % parts;  // the first `rest` ranges have one element more
  for (size_t part = 0; part < static_cast<size_t>(parts); ++part) {
    ranges.push_back({part * share + std::min(part, rest), share + (part < rest ? 1 : 0)});
  }
  return ranges;
}

}  // namespace ringwood
