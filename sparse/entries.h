// Entries (index, value) that were selected from a tensor or a group: what a tree carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

// A view of entries.
struct EntriesView {
  std::span<const uint32_t> index;
  std::span<const float> value;

  EntriesView() = default;
  EntriesView(const Entries& entries) : index(entries.index), value(entries.value) {}
  size_t size() const { return index.size(); }
  EntriesView Part(size_t first, size_t count) const {
    EntriesView part;
    part.index = index.subspan(first, count);
    part.value = value.subspan(first, count);
    return part;
  }
};

// Entries are coded, merged and answered in blocks of this many consecutive indices.
constexpr uint64_t kBlockElements = 65536;

constexpr uint64_t BlocksOf(uint64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}

// Most elements of a group: an index is a 32-bit number, and so is the end.
constexpr uint64_t kMaxGroupElements = ~uint32_t{0};

// Elements [begin, end) of a group; begin is a multiple of kBlockElements.
struct IndexRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t elements() const { return end - begin; }
};

}  // namespace ringwood
