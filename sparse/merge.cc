#include "sparse/merge.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "base/check.h"

namespace ringwood {

BlockRoom::BlockRoom() : value(kBlockElements), present(kBlockElements / 64, 0) {
  std::fill(value.span().begin(), value.span().end(), -0.0f);
}

void Merger::Restart(size_t children) {
  next_.assign(children, 0);
  block_ = 0;
  sum_.clear();
}

void Merger::Advance(std::span<const Entries> children, uint64_t end, uint64_t elements,
                     BlockRoom* room) {
  RW_CHECK(children.size() == next_.size());
  const uint64_t blocks = end == elements ? BlocksOf(end) : end / kBlockElements;
  float* value = room->value.data();
  uint64_t* present = room->present.data();
  for (; block_ < blocks; ++block_) {
    const uint64_t block_end = (block_ + 1) * kBlockElements;
    const size_t before = sum_.size();
    size_t most = 0;
    for (size_t c = 0; c < children.size(); ++c) {
      const Entries& child = children[c];
      size_t at = next_[c];
      for (; at < child.size() && child.index[at] < block_end; ++at) {
        const uint32_t local = child.index[at] % kBlockElements;
        value[local] += child.value[at];
        present[local / 64] |= 1ull << (local % 64);
      }
      most += at - next_[c];
      next_[c] = at;
    }
    if (most == 0) continue;
    sum_.index.resize(before + most);
    sum_.value.resize(before + most);
    uint32_t* index = sum_.index.data() + before;
    float* out = sum_.value.data() + before;
    for (uint32_t word = 0; word < kBlockElements / 64; ++word) {
      for (uint64_t bits = present[word]; bits != 0; bits &= bits - 1) {
        const uint32_t local = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
        *index++ = static_cast<uint32_t>(block_ * kBlockElements) + local;
        *out++ = value[local];
        value[local] = -0.0f;
      }
      present[word] = 0;
    }
    sum_.index.resize(index - sum_.index.data());
    sum_.value.resize(sum_.index.size());
  }
}

Entries MergeSum(std::span<const Entries> children, uint64_t elements) {
  BlockRoom room;
  Merger merger;
  merger.Restart(children.size());
  merger.Advance(children, elements, elements, &room);
  return std::move(*merger.sum());
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

void PackAcceptedOf(std::span<const uint32_t> accepted, std::span<const Entries> children,
                    BlockRoom* room, std::vector<std::vector<std::byte>>* bits) {
  uint64_t* present = room->present.data();
  std::vector<size_t> next(children.size(), 0);
  bits->resize(children.size());
  for (size_t c = 0; c < children.size(); ++c) {
    (*bits)[c].assign(AcceptedBytes(children[c].size()), std::byte{0});
  }
  for (size_t first = 0; first < accepted.size();) {
    const uint64_t end = (accepted[first] / kBlockElements + 1) * kBlockElements;
    size_t last = first;
    for (; last < accepted.size() && accepted[last] < end; ++last) {
      present[accepted[last] % kBlockElements / 64] |= 1ull << (accepted[last] % 64);
    }
    for (size_t c = 0; c < children.size(); ++c) {
      const std::span<const uint32_t> sent = children[c].index;
      std::byte* to = (*bits)[c].data();
      size_t at = next[c];
      while (at < sent.size() && sent[at] < end - kBlockElements)
        ++at;  // none accepted in this block
      for (; at < sent.size() && sent[at] < end; ++at) {
        const uint32_t local = sent[at] % kBlockElements;
        to[at / 8] |= static_cast<std::byte>((present[local / 64] >> (local % 64) & 1) << (at % 8));
      }
      next[c] = at;
    }
    for (; first < last; ++first) present[accepted[first] % kBlockElements / 64] = 0;
  }
}

std::vector<uint8_t> AcceptedOf(std::span<const uint32_t> sent,
                                std::span<const uint32_t> accepted) {
  std::vector<uint8_t> answer(sent.size());
  size_t at = 0;
  for (size_t j = 0; j < sent.size(); ++j) {
    while (at < accepted.size() && accepted[at] < sent[j]) ++at;
    answer[j] = at < accepted.size() && accepted[at] == sent[j] ? 1 : 0;
  }
  return answer;
}

void UnpackAccepted(std::span<const std::byte> bits, uint64_t entries,
                    std::vector<uint8_t>* accepted) {
  RW_CHECK(bits.size() == AcceptedBytes(entries));
  const size_t old = accepted->size();
  accepted->resize(old + entries);
  uint8_t* to = accepted->data() + old;
  uint64_t j = 0;
  for (; j + 8 <= entries; j += 8) {
    // Byte b of the product is the whole byte of bits, of which the mask leaves bit b; adding 127
    // carries it, wherever it is, into the byte's top.
    const uint64_t spread =
        static_cast<uint64_t>(bits[j / 8]) * 0x0101010101010101ull & 0x8040201008040201ull;
    const uint64_t bytes = (spread + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull;
    std::memcpy(to + j, &bytes, sizeof(bytes));
  }
  for (; j < entries; ++j) to[j] = static_cast<uint8_t>(bits[j / 8]) >> (j % 8) & 1;
}

}  // namespace ringwood
