// A sampler's state from a checkpoint or a peer: what is accepted is a state that goes on, in which
// no sample is handed out twice in a pass.
//
// sources: client/sampler.cc client/sampler_state.cc client/permutation.cc
// sources: base/random.cc base/status.cc base/check.cc
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "client/sampler.h"

namespace ringwood {
namespace {

constexpr uint64_t kSamples = 200;

void GoOn(Sampler sampler) {
  const std::vector<int> everyone = {0, 1, 2};
  RW_CHECK(sampler.Restore(sampler.State()).ok());
  std::set<uint64_t> handed_out;
  for (const uint64_t pass = sampler.pass(); sampler.pass() == pass;) {
    for (const int rank : everyone) {
      const auto share = sampler.Share(rank);
      RW_CHECK(share.ok() && share->has_value());
      for (const uint64_t sample : **share) RW_CHECK(sample < kSamples);
      for (const uint64_t sample : **share) RW_CHECK(handed_out.insert(sample).second);
    }
    RW_CHECK(sampler.Committed(everyone, everyone).ok());
  }
}

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int world = data[0] % 8;
  const std::string state(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto sampler = ringwood::Sampler::Make(
      {.samples = ringwood::kSamples, .batch = 30, .seed = 1, .world = 3, .ahead = 2});
  RW_CHECK(sampler.ok());
  if (sampler->Restore(state, world).ok()) ringwood::GoOn(*sampler);
  return 0;
}
