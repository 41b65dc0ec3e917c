// Which of a dense group's parts one launch handles: those of one stream of the trainer's, which is
// nearly always all. A pure function of the parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "dense/cuda/device_bucket.h"
#include "dense/cuda/parts.h"

namespace ringwood::cuda {

struct StreamParts {
  void* stream = nullptr;
  uint32_t first = 0;  // in PartTable::parts
  uint32_t count = 0;
  uint64_t elements = 0;
};

struct PartTable {
  std::vector<PartView> parts;  // of each stream one after the other, empty ones left out
  std::vector<StreamParts> streams;
};

inline PartTable TableOf(std::span<const DeviceBucket::Part> parts) {
  PartTable table;
  for (const DeviceBucket::Part& part : parts) {
    const auto same = [&](const StreamParts& other) { return other.stream == part.stream; };
    if (std::any_of(table.streams.begin(), table.streams.end(), same)) continue;
    StreamParts of_stream{part.stream, static_cast<uint32_t>(table.parts.size()), 0, 0};
    for (const DeviceBucket::Part& other : parts) {
      if (other.stream != part.stream || other.elements == 0) continue;
      table.parts.push_back({other.data, other.elements, of_stream.elements, other.first});
      of_stream.elements += other.elements;
      ++of_stream.count;
    }
    table.streams.push_back(of_stream);
  }
  return table;
}

}  // namespace ringwood::cuda
