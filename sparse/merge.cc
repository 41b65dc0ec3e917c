#include "sparse/merge.h"

#include <bit>
#include <map>

#include "base/buffer.h"
#include "base/check.h"

namespace ringwood {

Entries MergeSum(std::span<const Entries> children, uint64_t elements) {
  Entries sum;
  size_t total = 0;
  for (const Entries& child : children) total += child.size();
  sum.index.reserve(total);
  sum.value.reserve(total);
  std::vector<size_t> next(children.size(), 0);
  std::vector<uint64_t> present(kBlockElements / 64, 0);
  Buffer<float> value(kBlockElements);
  for (uint64_t block = 0; block < BlocksOf(elements); ++block) {
    const uint64_t end = (block + 1) * kBlockElements;
    bool any = false;
    for (size_t c = 0; c < children.size(); ++c) {
      const Entries& child = children[c];
      for (; next[c] < child.size() && child.index[next[c]] < end; ++next[c]) {
        const uint32_t local = child.index[next[c]] % kBlockElements;
        const uint64_t bit = 1ull << (local % 64);
        const float v = child.value[next[c]];
        value[local] = (present[local / 64] & bit) != 0 ? value[local] + v : v;
        present[local / 64] |= bit;
        any = true;
      }
    }
    if (!any) continue;
    for (uint32_t word = 0; word < present.size(); ++word) {
      for (uint64_t bits = present[word]; bits != 0; bits &= bits - 1) {
        const uint32_t local = word * 64 + std::countr_zero(bits);
        sum.push_back(static_cast<uint32_t>(block * kBlockElements + local), value[local]);
      }
      present[word] = 0;
    }
  }
  for (size_t c = 0; c < children.size(); ++c) RW_CHECK(next[c] == children[c].size());
  return sum;
}

Entries MergeSumPlain(std::span<const Entries> children) {
  std::map<uint32_t, float> sums;
  for (const Entries& child : children) {
    for (size_t i = 0; i < child.size(); ++i) {
      const auto [at, inserted] = sums.emplace(child.index[i], child.value[i]);
      if (!inserted) at->second += child.value[i];
    }
  }
  Entries sum;
  for (const auto& [index, value] : sums) sum.push_back(index, value);
  return sum;
}

std::vector<uint8_t> CountedOf(std::span<const uint32_t> sent, std::span<const uint32_t> counted) {
  std::vector<uint8_t> answer(sent.size());
  size_t at = 0;
  for (size_t j = 0; j < sent.size(); ++j) {
    while (at < counted.size() && counted[at] < sent[j]) ++at;
    answer[j] = at < counted.size() && counted[at] == sent[j] ? 1 : 0;
  }
  return answer;
}

void PackCounted(std::span<const uint8_t> counted, std::vector<std::byte>* out) {
  out->assign(CountedBytes(counted.size()), std::byte{0});
  for (size_t j = 0; j < counted.size(); ++j) {
    (*out)[j / 8] |= static_cast<std::byte>((counted[j] & 1) << (j % 8));
  }
}

std::vector<uint8_t> UnpackCounted(std::span<const std::byte> bits, uint64_t entries) {
  RW_CHECK(bits.size() == CountedBytes(entries));
  std::vector<uint8_t> counted(entries);
  for (uint64_t j = 0; j < entries; ++j) {
    counted[j] = (static_cast<uint8_t>(bits[j / 8]) >> (j % 8)) & 1;
  }
  return counted;
}

}  // namespace ringwood
