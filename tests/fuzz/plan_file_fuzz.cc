// A plan file from anywhere: an error that names the file, or a plan that fits its own tensors,
// survives being saved, and gives every reducer a part or a reason.
//
// sources: client/replan/plan_file.cc base/files/replaceable.cc base/files/whole_file.cc
// sources: plan/strategy/validate.cc plan/sparse_groups.cc sparse/assign.cc plan/plan.cc
// sources: sparse/group.cc sparse/tree.cc sparse/shard.cc plan/wire.cc
// sources: sparse/reducer/part.cc sparse/chunks.cc sparse/codec.cc sparse/index_code.cc
// sources: sparse/value_code.cc sparse/bits/sum_code.cc base/status.cc base/check.cc base/units.cc
// sources: control.pb.cc
// libraries: protobuf
#include <span>
#include <string>

#include "base/check.h"
#include "base/digest.h"
#include "client/replan/plan_file.h"
#include "plan/sparse_groups.h"
#include "plan/strategy/planner.h"
#include "plan/wire.h"
#include "sparse/reducer/part.h"

namespace ringwood {

// All hashes are 0, so that a changed plan has the right one.
uint64_t Digest(std::span<const std::byte>, uint64_t) { return 0; }
uint64_t Combine(uint64_t, uint64_t) { return 0; }

namespace {

constexpr size_t kMostTensors = 64;  // so that an input takes milliseconds

// Bytes 0 and 1: workers and servers; then the file.
void ReadAndServe(std::span<const uint8_t> input) {
  if (input.size() < 2) return;
  const StatusOr<v1::SavedPlan> saved =
      ParsePlanFile(std::string(input.begin() + 2, input.end()), "plan.json");
  if (!saved.ok()) {
    RW_CHECK(Message(saved.status()).find("plan.json") != std::string::npos);
    return;
  }
  std::vector<TensorSpec> table;
  std::vector<uint64_t> elements;
  for (const v1::Tensor& tensor : saved->tensors()) {
    const StatusOr<TensorSpec> spec = FromProto(tensor);
    if (!spec.ok() || table.size() == kMostTensors) return;
    table.push_back(*spec);
    elements.push_back(spec->elements);
  }
  const StatusOr<Plan> plan = PlanFor(table, *saved);
  if (!plan.ok()) return;
  RW_CHECK(Validate(*plan, table).ok());
  const StatusOr<Plan> again = PlanFor(table, ToSave(*plan, table, 1, 1));
  RW_CHECK(again.ok() && ToString(*again, table) == ToString(*plan, table));
  const TreeShape shape{1 + input[0] % 9, input[1] % 5, static_cast<int>(plan->fanout)};
  const StatusOr<std::vector<SparseGroup>> groups = SparseGroupsOf(*plan, shape, elements);
  if (!groups.ok()) return;
  for (const SparseGroup& group : *groups) {
    for (int node = shape.workers; node < shape.workers + shape.reducers; ++node) {
      for (const int shard : RangesOf(shape, node, group)) {
        const StatusOr<ReducerPart> part = PartOf(shape, node, group, shard);
        if (part.ok()) RW_CHECK(part->idle() || part->MemoryBytes() > 0);
      }
    }
  }
}

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringwood::ReadAndServe({data, size});
  return 0;
}
