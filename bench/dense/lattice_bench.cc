// Speed of the int8 and int4 codec on one core, in fp32 bytes of the tensor a second: what a rank
// does to send its part (encode), to add it to a sum that came (add) and to read the result
// (decode).
//
//   lattice_bench [ELEMENTS]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "base/buffer.h"
#include "base/random.h"
#include "bench/best.h"
#include "dense/lattice/codes.h"

namespace ringwood {
namespace {

constexpr int kRepeats = 7;
constexpr int kRanks = 4;

// As long as the messages of a chunk: what is worked on at once.
constexpr size_t kPiece = 1024 * kLatticeBlock;

void Measure(size_t elements, int bits) {
  const int levels = LatticeLevels(bits);
  Buffer<float> x(elements), error(elements), next(elements), output(elements);
  Buffer<BlockReach> reach(LatticeBlocks(elements)), next_reach(LatticeBlocks(elements));
  Random random(1);
  for (size_t i = 0; i < elements; ++i) x[i] = static_cast<float>(std::pow(random.Unit(), 3) - 0.5);
  std::fill_n(reach.data(), reach.size(), BlockReach{0x3f80});
  const size_t most = PackedBytes(LatticeBlocks(kPiece), LatticeWidth(levels, kRanks));
  Buffer<std::byte> one(most), sum(most);
  const auto pieces = [&](const std::function<void(const LatticeSource&, size_t)>& of_piece) {
    for (size_t at = 0; at < elements; at += kPiece) {
      of_piece({x.data() + at, error.data() + at, next.data() + at,
                reach.data() + at / kLatticeBlock, std::min(kPiece, elements - at), levels},
               at);
    }
  };
  const double encode = Best(kRepeats, [&] {
    pieces([&](const LatticeSource& from, size_t) { AddSource(from, nullptr, 0, one.data()); });
  });
  const double add = Best(kRepeats, [&] {
    pieces([&](const LatticeSource& from, size_t) { AddSource(from, one.data(), 1, sum.data()); });
  });
  AddSource({x.data(), error.data(), next.data(), reach.data(), std::min(kPiece, elements), levels},
            nullptr, 0, sum.data());
  for (int terms = 1; terms < kRanks; ++terms) {
    AddPacked({sum.data(), terms}, one.data(), 1, LatticeBlocks(std::min(kPiece, elements)),
              levels);
  }
  const double decode = Best(kRepeats, [&] {
    pieces([&](const LatticeSource& from, size_t at) {
      DecodeSum(sum.data(), kRanks,
                {output.data() + at, from.reach, next_reach.data() + at / kLatticeBlock, from.count,
                 levels});
    });
  });
  const double gigabytes = static_cast<double>(elements * sizeof(float)) * 1e-9;
  std::printf("int%d  encode %.2f  add %.2f  decode %.2f  encode + decode %.2f GB/s\n", bits,
              gigabytes / encode, gigabytes / add, gigabytes / decode,
              gigabytes / (encode + decode));
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  const size_t elements = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 16 << 20;
  for (const int bits : {8, 4}) ringwood::Measure(elements, bits);
  return 0;
}
