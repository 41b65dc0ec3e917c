// A profile file from anywhere: an error that says what is wrong, or a profile that survives being
// written, and plans that a job can run from every planner.
//
// sources: plan/model/model_profile.cc plan/model/csv.cc plan/strategy/profile_input.cc
// sources: base/files/whole_file.cc base/files/replaceable.cc
// sources: plan/strategy/planner.cc plan/strategy/problem.cc plan/plan.cc plan/model/cost.cc
// sources: plan/strategy/lane.cc plan/strategy/exact.cc plan/strategy/fixed.cc
// sources: plan/strategy/single.cc plan/strategy/wfbp.cc plan/strategy/mgwfbp.cc
// sources: plan/strategy/oasr.cc plan/strategy/asc.cc plan/strategy/plan_asc.cc
// sources: plan/strategy/dear.cc plan/strategy/plan_dear.cc plan/strategy/lags.cc
// sources: plan/strategy/omgs.cc plan/strategy/plan_omgs.cc plan/strategy/hybrid.cc
// sources: plan/density_changes.cc
// sources: plan/strategy/first_plan.cc plan/strategy/tree_groups.cc plan/strategy/validate.cc
// sources: dense/hosts.cc dense/choose.cc dense/lattice/codes.cc
// sources: dense/lattice/plain_kernels.cc dense/lattice/simd_kernels.cc
// sources: plan/strategy/candidates.cc plan/strategy/nic.cc plan/strategy/tree_cost.cc
// sources: sparse/tree.cc base/status.cc base/check.cc base/units.cc
// libraries: libhwy
#include <span>
#include <string>

#include "base/check.h"
#include "base/digest.h"
#include "plan/model/model_profile.h"
#include "plan/strategy/profile_input.h"

namespace ringwood {

// What a hash is does not matter here.
uint64_t Digest(std::span<const std::byte>, uint64_t) { return 0; }
uint64_t Combine(uint64_t digest, uint64_t next) { return digest * 31 + next; }

namespace {

constexpr size_t kMostTensors = 24;  // so that an input takes milliseconds

// Bytes 0..3: planner, workers, servers, density; then the file.
void ReadAndPlan(std::span<const uint8_t> input) {
  if (input.size() < 4) return;
  const std::string text(input.begin() + 4, input.end());
  const StatusOr<ModelProfile> profile = ParseModelProfile(text, "trace.csv");
  if (!profile.ok()) {
    RW_CHECK(!Message(profile.status()).empty());
    return;
  }
  const StatusOr<ModelProfile> again = ParseModelProfile(FormatModelProfile(*profile), "trace.csv");
  RW_CHECK(again.ok() && again->tensors.size() == profile->tensors.size());
  for (size_t t = 0; t < profile->tensors.size(); ++t) {
    RW_CHECK(again->tensors[t].elements == profile->tensors[t].elements);
    RW_CHECK(again->tensors[t].ready_seconds == profile->tensors[t].ready_seconds);
  }
  if (profile->tensors.size() > kMostTensors) return;
  PlanInput question = InputOf(*profile, (1 + input[3]) / 256.0);
  question.world = 1 + input[1] % 40;
  question.servers = input[2] % 10;
  for (size_t t = 0; t < question.tensors.size(); ++t) {
    const int route = (input[3] >> t % 8) % 3;
    question.tensors[t].route = route == 0 ? "auto" : route == 1 ? "dense" : "sparse";
  }
  const std::string& planner = PlannerNames()[input[0] % PlannerNames().size()];
  const StatusOr<Plan> plan = MakePlan(planner, question);
  if (!plan.ok()) return;
  RW_CHECK(!ToString(*plan, question.tensors).empty());
  if (CheckRunnable(planner).ok()) RW_CHECK(Validate(*plan, question.tensors).ok());
}

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringwood::ReadAndPlan({data, size});
  return 0;
}
