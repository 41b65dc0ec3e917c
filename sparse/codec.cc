#include "sparse/codec.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ringwood {
namespace {

// Layout of block16/fp32: the entries of each block as varints (7 bits a byte, low first), then all
// 16-bit indices inside their blocks, then all values.
constexpr uint64_t kVarintBytes = 3;  // a block has at most 65,536 entries

void PutVarint(uint32_t value, std::vector<std::byte>* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
  out->push_back(static_cast<std::byte>(value));
}

// Advances `wire`; false when it ends early or runs over three bytes.
bool GetVarint(std::span<const std::byte>* wire, uint32_t* value) {
  *value = 0;
  for (uint64_t i = 0; i < kVarintBytes && i < wire->size(); ++i) {
    const uint32_t byte = static_cast<uint32_t>((*wire)[i]);
    *value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *wire = wire->subspan(i + 1);
      return true;
    }
  }
  return false;
}

Status Bad(const char* what, uint64_t block) {
  return Corrupt(absl::StrFormat("entries of a peer cannot be read: %s in block %d", what, block));
}

}  // namespace

StatusOr<Codec> ParseCodec(const std::string& name) {
  if (name == "block16/fp32") return Codec{};
  return Invalid(absl::StrFormat("unknown codec \"%s\": use block16/fp32", name));
}

uint64_t MaxWireBytes(const Codec& codec, uint64_t elements, uint64_t k) {
  return BlocksOf(elements) * kVarintBytes + std::min(k, elements) * (2 + 4);
}

void Encode(const Codec& codec, uint64_t elements, const Entries& entries,
            std::vector<std::byte>* out) {
  const size_t count = entries.size();
  out->clear();
  out->reserve(MaxWireBytes(codec, elements, count));
  size_t at = 0;
  for (uint64_t block = 0; block < BlocksOf(elements); ++block) {
    const uint64_t end = (block + 1) * kBlockElements;
    const size_t begin = at;
    while (at < count && entries.index[at] < end) ++at;
    PutVarint(static_cast<uint32_t>(at - begin), out);
  }
  RW_CHECK(at == count);
  const size_t head = out->size();
  out->resize(head + count * 6);
  std::byte* indices = out->data() + head;
  for (size_t i = 0; i < count; ++i) {
    const uint16_t local = static_cast<uint16_t>(entries.index[i]);
    std::memcpy(indices + 2 * i, &local, 2);
  }
  if (count > 0) std::memcpy(indices + 2 * count, entries.value.data(), 4 * count);
}

Status Decode(const Codec& codec, uint64_t elements, uint64_t max_entries,
              std::span<const std::byte> wire, Entries* entries) {
  entries->clear();
  const uint64_t blocks = BlocksOf(elements);
  std::span<const std::byte> heads = wire;
  uint64_t count = 0;
  uint32_t in_block = 0;
  for (uint64_t block = 0; block < blocks; ++block) {
    if (!GetVarint(&wire, &in_block)) return Bad("the count ends early", block);
    count += in_block;
    if (count > max_entries) return Bad("more entries than the plan allows", block);
  }
  if (wire.size() != count * 6) return Bad("length and count differ", blocks);
  entries->index.resize(count);
  entries->value.resize(count);
  size_t at = 0;
  for (uint64_t block = 0; block < blocks; ++block) {
    GetVarint(&heads, &in_block);
    const uint64_t base = block * kBlockElements;
    const uint64_t limit = std::min(kBlockElements, elements - base);
    int64_t last = -1;
    for (uint32_t i = 0; i < in_block; ++i, ++at) {
      uint16_t local;
      std::memcpy(&local, wire.data() + 2 * at, 2);
      if (local <= last || local >= limit) return Bad("an index is out of order", block);
      last = local;
      entries->index[at] = static_cast<uint32_t>(base + local);
    }
  }
  if (count > 0) std::memcpy(entries->value.data(), wire.data() + 2 * count, 4 * count);
  return OkStatus();
}

}  // namespace ringwood
