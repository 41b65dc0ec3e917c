// Bits an entry of every codec and the speed of encode + decode, in bytes of the dense tensor a
// second. codec_bench [ELEMENTS]; random indices and heavy-tailed values.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "sparse/codec.h"

namespace ringwood {
namespace {

Entries Sample(uint64_t elements, double density) {
  Random random(1);
  Entries entries;
  for (uint64_t i = 0; i < elements; ++i) {
    if (random.Unit() >= density) continue;
    const float magnitude = static_cast<float>(-1 - std::log(1 - random.Unit()));
    entries.push_back(static_cast<uint32_t>(i), random.Below(2) == 0 ? magnitude : -magnitude);
  }
  return entries;
}

void Measure(const std::string& name, uint64_t elements, double density) {
  const Codec codec = *ParseCodec(name);
  const Entries entries = Sample(elements, density);
  std::vector<std::byte> wire;
  Entries back;
  double best = 1e9;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const TimePoint start = Now();
    Encode(codec, elements, entries, &wire);
    const bool ok = Decode(codec, elements, entries.size(), wire, &back).ok();
    if (!ok) std::abort();
    best = std::min(best, ToSeconds(Now() - start));
  }
  const double bound = -std::log2(density) - (1 - density) / density * std::log2(1 - density);
  std::printf("%-14s density %.5f  %6.2f bits an entry (entropy of the index %.2f)  %7.2f GB/s\n",
              name.c_str(), density, 8.0 * wire.size() / entries.size(), bound,
              4.0 * elements / best / 1e9);
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  const uint64_t elements = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1 << 24;
  for (double density : {1.0 / 64, 0.01, 0.001}) {
    for (const char* index : {"block16", "rice"}) {
      for (const char* value : {"fp32", "bf16", "int8", "int4"}) {
        ringwood::Measure(std::string(index) + "/" + value, elements, density);
      }
    }
  }
  return 0;
}
