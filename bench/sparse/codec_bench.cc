// Bits an entry of every codec and the speed of encode + decode, in bytes of the dense tensor a
// second, on one core.
//
//   codec_bench [ELEMENTS]     random indices, heavy-tailed values
//   codec_bench FILE           raw float32, as bench/sparse/gradients.py writes them: the largest
//   of
//                              a real gradient, whose indices crowd
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/random.h"
#include "bench/best.h"
#include "sparse/codec.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

constexpr int kRepeats = 7;

std::vector<float> RandomValues(uint64_t elements) {
  Random random(1);
  std::vector<float> values(elements);
  for (float& value : values) {
    const float magnitude = static_cast<float>(-1 - std::log(1 - random.Unit()));
    value = random.Below(2) == 0 ? magnitude : -magnitude;
  }
  return values;
}

std::vector<float> ReadValues(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  std::vector<float> values(in ? static_cast<size_t>(in.tellg()) / sizeof(float) : 0);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(values.data()),
          static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

void Measure(const std::string& name, uint64_t elements, const Entries& entries) {
  const Codec codec = *ParseCodec(name);
  std::vector<std::byte> wire(MaxWireBytes(codec, elements, entries.size()));
  uint64_t length = 0;
  Entries back;
  const double best = Best(kRepeats, [&] {
    back.clear();
    length = Encode(codec, {0, elements}, entries, wire);
    const bool ok =
        Decode(codec, {0, elements}, entries.size(), std::span(wire).first(length), &back).ok();
    if (!ok) std::abort();
  });
  const double density = static_cast<double>(entries.size()) / static_cast<double>(elements);
  const double bound = -std::log2(density) - (1 - density) / density * std::log2(1 - density);
  const double bytes = static_cast<double>(length);
  std::printf("%-14s density %.5f  %6.2f bits an entry (entropy of the index %.2f)  %7.2f GB/s\n",
              name.c_str(), density, 8 * bytes / static_cast<double>(entries.size()), bound,
              sizeof(float) * static_cast<double>(elements) / best / 1e9);
}

int Run(const std::string& source) {
  const bool is_number = source.find_first_not_of("0123456789") == std::string::npos;
  const std::vector<float> values =
      is_number ? RandomValues(std::strtoull(source.c_str(), nullptr, 10)) : ReadValues(source);
  if (values.empty()) {
    std::fprintf(stderr, "codec_bench: no values in %s\n", source.c_str());
    return 78;
  }
  for (double density : {1.0 / 64, 0.01, 0.001}) {
    const auto k = static_cast<uint64_t>(density * static_cast<double>(values.size()));
    TopK topk(values.size(), std::max<uint64_t>(1, k));
    topk.Restart(1);
    for (size_t i = 0; i < values.size(); ++i) {
      if (topk.room() == 0) topk.Cut();
      topk.Offer(static_cast<uint32_t>(i), values[i]);
    }
    Entries entries;
    topk.Take(&entries);
    for (const char* index : {"block16", "rice"}) {
      for (const char* value : {"fp32", "bf16", "int8", "int4", "int2"}) {
        Measure(std::string(index) + "/" + value, values.size(), entries);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) { return ringwood::Run(argc > 1 ? argv[1] : "16777216"); }
