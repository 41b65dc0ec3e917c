// What travels a tree: the entries (index, value) that were selected from a tensor or a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringwood {

// Indices are strictly increasing. They are coordinates of a tensor (SparseTensor) or of a group,
// where element i of tensor t is number prefix(t) + i; a group has fewer than 2^32 elements.
struct Entries {
  std::vector<uint32_t> index;
  std::vector<float> value;

  size_t size() const { return index.size(); }
  void clear() {
    index.clear();
    value.clear();
  }
  void push_back(uint32_t i, float v) {
    index.push_back(i);
    value.push_back(v);
  }
  bool operator==(const Entries&) const = default;
};

// Entries are coded, merged and answered in blocks of this many consecutive indices.
constexpr uint64_t kBlockElements = 65536;

constexpr uint64_t BlocksOf(uint64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}

}  // namespace ringwood
