// Runs the fuzz target over the corpus in the repository, then over mutations of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/random.h"
#include "paths.h"
#include "tests/fuzz/decode_merge_fuzz.cc"  // the target, with its main function

namespace ringwood {
namespace {

std::vector<std::vector<uint8_t>> Corpus() {
  std::vector<std::vector<uint8_t>> corpus;
  const std::string folder = std::string(RINGWOOD_SOURCE_DIR) + "/tests/fuzz/corpus/decode_merge";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

TEST(DecodeMerge, AgreesWithThePlainMergeOnTheCorpusAndItsMutations) {
  std::vector<std::vector<uint8_t>> corpus = Corpus();
  ASSERT_GE(corpus.size(), 8u);
  for (const auto& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());
  Random random(11);
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<uint8_t> input = corpus[random.Below(corpus.size())];
    for (uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
      input[random.Below(input.size())] = static_cast<uint8_t>(random.Next());
    }
    if (random.Below(4) == 0) input.resize(1 + random.Below(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}

}  // namespace
}  // namespace ringwood
