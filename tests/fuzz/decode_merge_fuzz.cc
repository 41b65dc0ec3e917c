// What a reducer does with bytes from the network: decode, merge, cut, answer, each against its
// plain reference. decode_merge_test.cc runs it over the corpus and its mutations in every test
// run.
//
// sources: sparse/codec.cc sparse/index_code.cc sparse/value_code.cc sparse/bits/sum_code.cc
// sources: sparse/merge.cc sparse/select.cc sparse/cut.cc base/status.cc base/check.cc
// libraries: libhwy
#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "base/check.h"
#include "sparse/codec.h"
#include "sparse/key.h"
#include "sparse/merge.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

bool SameBits(const Entries& a, const Entries& b) {
  if (a.index != b.index) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = a.value[i] != a.value[i] && b.value[i] != b.value[i];
    if (!both_nan && std::bit_cast<uint32_t>(a.value[i]) != std::bit_cast<uint32_t>(b.value[i])) {
      return false;
    }
  }
  return true;
}

// Byte 0: the codec; byte 1: the group's size; byte 2: where the first child's bytes end.
void DecodeAndMerge(std::span<const std::byte> input) {
  if (input.size() < 3) return;
  const Codec codec{input[0] < std::byte{128} ? IndexCode::kBlock16 : IndexCode::kRice,
                    static_cast<ValueCode>(1 + static_cast<int>(input[0]) % 6)};
  const uint64_t elements = 1 + static_cast<uint64_t>(input[1]) * 700;  // up to three blocks
  const uint64_t most = std::min<uint64_t>(elements, 200);
  const std::span<const std::byte> wire = input.subspan(3);
  const size_t cut = std::min<size_t>(static_cast<size_t>(input[2]), wire.size());
  std::vector<Entries> children(2);
  const Status first = Decode(codec, {0, elements}, most, wire.first(cut), &children[0]);
  const Status second = Decode(codec, {0, elements}, most, wire.subspan(cut), &children[1]);
  if (!first.ok()) children[0].clear();
  if (!second.ok()) children[1].clear();
  for (const Entries& child : children) {
    RW_CHECK(child.size() <= most && child.index.size() == child.value.size());
    std::vector<std::byte> again(MaxWireBytes(codec.Exact(), elements, child.size()));
    again.resize(Encode(codec.Exact(), {0, elements}, child, again));
    Entries back;
    RW_CHECK(Decode(codec.Exact(), {0, elements}, most, again, &back).ok() &&
             SameBits(back, child));
  }
  Entries sum = MergeSum(children, elements);
  RW_CHECK(SameBits(sum, MergeSumPlain(children)));
  const uint64_t k = most / 4;
  const size_t size = sum.size();
  KeepLargest(k, &sum);
  RW_CHECK(sum.size() == std::min<uint64_t>(k, size));
  BlockRoom room;
  std::vector<std::vector<std::byte>> bits;
  PackAcceptedOf(sum.index, children, &room, &bits);
  for (size_t c = 0; c < children.size(); ++c) {
    std::vector<uint8_t> accepted;
    UnpackAccepted(bits[c], children[c].size(), &accepted);
    RW_CHECK(accepted == AcceptedOf(children[c].index, sum.index));
  }
}

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringwood::DecodeAndMerge(std::as_bytes(std::span(data, size)));
  return 0;
}
