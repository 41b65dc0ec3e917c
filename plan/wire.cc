#include "plan/wire.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "sparse/group.h"

namespace ringwood {
namespace {

constexpr int kMaxGroups = 1 << 20;
constexpr int64_t kMaxWireTensors = 1 << 20;  // over all groups
constexpr size_t kMaxName = 64;               // of a route, codec, merge or planner
constexpr size_t kMaxTensorName = 4096;
constexpr size_t kMaxReason = 4096;
constexpr uint64_t kMaxWireElements = uint64_t{1} << 40;
constexpr uint32_t kMaxWireFanout = 1 << 20;

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

StatusOr<Group> FromProto(const v1::Group& message, int index) {
  const auto bad = [index](const char* what) {
    return Invalid(absl::StrFormat("plan message, group %d: %s", index, what));
  };
  if (message.tensors_size() == 0) return bad("it has no tensors");
  if (message.route() != "ring" && message.route() != "tree") return bad("unknown route");
  if (!(message.density() > 0 && message.density() <= 1)) return bad("density is not in (0, 1]");
  if (!(message.final_density() >= 0 && message.final_density() <= message.density())) {
    return bad("its final density is not in [0, density]");
  }
  if (message.codec().empty() || message.codec().size() > kMaxName) return bad("bad codec name");
  if (!ParseMerge(message.merge()).ok()) return bad("unknown merge");
  if (!(message.keep() >= 0) || !std::isfinite(message.keep())) return bad("bad multiple of k");
  if (!IsTime(message.start_seconds()) || !IsTime(message.end_seconds())) return bad("bad times");
  if (message.reason().size() > kMaxReason) return bad("the reason is too long");
  if ((message.route() == "tree") != (message.k() > 0)) return bad("entries do not fit the route");
  Group group;
  group.tensors.assign(message.tensors().begin(), message.tensors().end());
  group.route = message.route();
  group.density = message.density();
  group.final_density = message.final_density();
  group.k = message.k();
  group.codec = message.codec();
  group.merge = message.merge();
  if (message.keep() != 0) group.keep = message.keep();
  group.start_seconds = message.start_seconds();
  group.end_seconds = message.end_seconds();
  group.reason = message.reason();
  return group;
}

}  // namespace

v1::Plan ToProto(const Plan& plan) {
  v1::Plan message;
  message.set_planner(plan.planner);
  for (const Group& group : plan.groups) {
    v1::Group* out = message.add_groups();
    for (const uint32_t tensor : group.tensors) out->add_tensors(tensor);
    out->set_route(group.route);
    out->set_density(group.density);
    out->set_final_density(group.final_density);
    out->set_k(group.k);
    out->set_codec(group.codec);
    out->set_merge(group.merge);
    if (group.keep != 1) out->set_keep(group.keep);
    out->set_start_seconds(group.start_seconds);
    out->set_end_seconds(group.end_seconds);
    out->set_reason(group.reason);
  }
  message.set_fanout(plan.fanout);
  message.set_predicted_seconds(plan.predicted_seconds);
  message.set_hash(Hash(plan));
  return message;
}

v1::Tensor ToProto(const TensorSpec& tensor) {
  v1::Tensor message;
  message.set_name(tensor.name);
  message.set_elements(tensor.elements);
  message.set_route(tensor.route);
  message.set_density(tensor.density);
  if (tensor.element_bytes != 4) message.set_element_bytes(tensor.element_bytes);
  return message;
}

StatusOr<Plan> FromProto(const v1::Plan& message) {
  if (message.groups_size() > kMaxGroups) return Invalid("plan message: too many groups");
  if (message.planner().size() > kMaxName) return Invalid("plan message: bad planner name");
  if (message.fanout() > kMaxWireFanout) return Invalid("plan message: impossible fan-out");
  if (!IsTime(message.predicted_seconds())) return Invalid("plan message: bad prediction");
  Plan plan;
  plan.planner = message.planner();
  plan.fanout = message.fanout();
  plan.predicted_seconds = message.predicted_seconds();
  int64_t tensors = 0;
  for (int i = 0; i < message.groups_size(); ++i) {
    tensors += message.groups(i).tensors_size();
    if (tensors > kMaxWireTensors) return Invalid("plan message: too many tensors");
    RW_ASSIGN_OR_RETURN(Group group, FromProto(message.groups(i), i));
    plan.groups.push_back(std::move(group));
  }
  if (Hash(plan) != message.hash()) {
    return Corrupt(absl::StrFormat("plan message: its hash is %016x, its content's is %016x",
                                   message.hash(), Hash(plan)));
  }
  return plan;
}

StatusOr<TensorSpec> FromProto(const v1::Tensor& message) {
  if (message.name().size() > kMaxTensorName) return Invalid("tensor message: name too long");
  const std::string& route = message.route();
  if (route != "auto" && route != "dense" && route != "sparse") {
    return Invalid(absl::StrFormat("tensor %s: unknown route", message.name()));
  }
  if (message.elements() == 0 || message.elements() > kMaxWireElements) {
    return Invalid(absl::StrFormat("tensor %s: %d elements", message.name(), message.elements()));
  }
  if (!(message.density() > 0 && message.density() <= 1)) {
    return Invalid(absl::StrFormat("tensor %s: density %g", message.name(), message.density()));
  }
  const uint32_t bytes = message.element_bytes() == 0 ? 4 : message.element_bytes();
  if (bytes != 4 && bytes != 2) {
    return Invalid(absl::StrFormat("tensor %s: elements of %d bytes", message.name(), bytes));
  }
  return TensorSpec{message.name(), message.elements(), route, message.density(), bytes};
}

}  // namespace ringwood
