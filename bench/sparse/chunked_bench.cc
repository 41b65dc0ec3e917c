// 64 entries of every 4,096, as a job with --sparse-chunk 4096 sends them: what a rank sends and
// receives against the payload of an fp32 all-reduce, 2(P−1)/P of the tensor each way, and how fast
// a core encodes what goes up, decodes what comes down, and selects.
//
//   chunked_bench [ELEMENTS]     heavy-tailed values; half of each is the same on all workers
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/random.h"
#include "bench/best.h"
#include "sparse/codec.h"
#include "sparse/merge.h"
#include "sparse/select.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {
namespace {

constexpr int kRepeats = 7;
constexpr uint64_t kChunk = 4096, kOfChunk = 64;

std::vector<float> RandomValues(uint64_t elements, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(elements);
  for (float& value : values) {
    const auto magnitude = static_cast<float>(-std::log(1 - random.Unit()));
    value = random.Below(2) == 0 ? magnitude : -magnitude;
  }
  return values;
}

std::vector<Entries> PicksOf(uint64_t elements, int workers, double* select) {
  const std::vector<float> common = RandomValues(elements, 99);
  std::vector<Entries> picks;
  for (int w = 0; w < workers; ++w) {
    SparseTensor tensor(elements, {.k = elements / kChunk * kOfChunk, .chunk_elements = kChunk});
    std::vector<float> gradient = RandomValues(elements, static_cast<uint64_t>(w));
    for (uint64_t i = 0; i < elements; ++i) gradient[i] += common[i];
    tensor.Accumulate(gradient, 1);
    if (w == 0) *select = Best(kRepeats, [&] { tensor.Accumulate(gradient, 1); });
    picks.push_back(tensor.picks());
  }
  return picks;
}

// A message of all entries.
struct Coded {
  std::vector<std::byte> wire;
  double encode = 0, decode = 0;
};

Coded Code(const Codec& codec, uint64_t elements, const Entries& entries) {
  Coded coded;
  coded.wire.resize(MaxWireBytes(codec, elements, entries.size()));
  uint64_t bytes = 0;
  Entries rounded = entries;
  coded.encode = Best(kRepeats, [&] {
    rounded.value = entries.value;
    RoundValues(codec, rounded.value);
    bytes = Encode(codec, {0, elements}, rounded, coded.wire);
  });
  coded.wire.resize(bytes);
  Entries back;
  coded.decode = Best(kRepeats, [&] {
    back.clear();
    if (!Decode(codec, {0, elements}, entries.size(), coded.wire, &back).ok()) std::abort();
  });
  return coded;
}

void Measure(uint64_t elements, int workers, const char* name, std::vector<Entries> picks,
             double select) {
  const Codec codec = *ParseCodec(name);
  const Coded up = Code(codec, elements, picks[0]);
  for (Entries& entries : picks) RoundValues(codec, entries.value);
  Entries result = MergeSum(picks, elements);
  const auto all = static_cast<double>(result.size());
  const double all_bits =
      8 * static_cast<double>(Code(codec.Exact(), elements, result).wire.size());
  KeepLargest(picks[0].size(), &result);
  const Coded down = Code(codec.Exact(), elements, result);
  const auto dense = sizeof(float) * static_cast<double>(elements);
  const double all_reduce = 2.0 * (workers - 1) / workers * dense;
  const auto sent = static_cast<double>(up.wire.size());
  const auto received = static_cast<double>(down.wire.size() + AcceptedBytes(picks[0].size()));
  const double entries = static_cast<double>(elements / kChunk * kOfChunk);
  const double coding = up.encode + down.decode;
  std::printf(
      "%-12s %2d workers  up %5.2f bits an entry, down %5.2f; %4.0f x fewer sent, %4.0f received, "
      "%4.0f both  union %.2f x, %.2f bits an entry  encode %.1f decode %.1f together %.1f GB/s, "
      "with selection %.2f\n",
      name, workers, 8 * sent / entries, 8 * received / entries, all_reduce / sent,
      all_reduce / received, 2 * all_reduce / (sent + received), all / entries, all_bits / all,
      dense / up.encode / 1e9, dense / down.decode / 1e9, dense / coding / 1e9,
      dense / (coding + select) / 1e9);
}

int Run(uint64_t elements) {
  elements = std::max(elements / kChunk, uint64_t{1}) * kChunk;
  for (const int workers : {2, 4, 8}) {
    double select = 0;
    const std::vector<Entries> picks = PicksOf(elements, workers, &select);
    for (const char* codec : {"rice/int2", "rice/int4", "rice/int8", "rice/fp32"}) {
      Measure(elements, workers, codec, picks, select);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  return ringwood::Run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8 << 20);
}
