#include "server/coordinator/epoch/agreement.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "plan/strategy/planner.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

std::string Shape(const v1::Tensor& tensor, bool with_type) {
  std::string text = absl::StrFormat("%d elements, ", tensor.elements());
  if (with_type) text += tensor.element_bytes() == 2 ? "as bfloat16, " : "as float32, ";
  text += "route " + tensor.route();
  if (tensor.route() != "dense") text += absl::StrFormat(", density %.9g", tensor.density());
  if (tensor.momentum() != 0) text += absl::StrFormat(", momentum %.9g", tensor.momentum());
  if (tensor.clip_norm() != 0) text += absl::StrFormat(", clip norm %.9g", tensor.clip_norm());
  return text;
}

bool SameShape(const v1::Tensor& a, const v1::Tensor& b) {
  return a.elements() == b.elements() && a.element_bytes() == b.element_bytes() &&
         a.route() == b.route() && a.momentum() == b.momentum() && a.clip_norm() == b.clip_norm() &&
         (a.route() == "dense" || a.density() == b.density());
}

}  // namespace

Status CheckPlan(const v1::Plan& plan,
                 const google::protobuf::RepeatedPtrField<v1::Tensor>& tensors) {
  std::vector<TensorSpec> table;
  for (const v1::Tensor& tensor : tensors) {
    RW_ASSIGN_OR_RETURN(TensorSpec spec, FromProto(tensor));
    table.push_back(std::move(spec));
  }
  RW_ASSIGN_OR_RETURN(const Plan read, FromProto(plan));
  return Validate(read, table);
}

Status Agreement::Add(CallId call, const v1::AgreeRequest& request, CallId* displaced) {
  *displaced = 0;
  if (request.rank() == 0 && !request.has_plan()) {
    return Invalid(label_(0) + " sent no plan: rank 0 plans for all");
  }
  for (const auto& [rank, other] : requests_) {
    if (rank == request.rank()) continue;
    RW_RETURN_IF_ERROR(Compare(other.request, request));
    RW_RETURN_IF_ERROR(CompareSettings(other.request, request));
    break;  // those that are in are equal to each other
  }
  if (request.rank() == 0) {
    RW_RETURN_IF_ERROR(Annotate(CheckPlan(request.plan(), request.tensors()), label_(0)));
  }
  auto found = requests_.find(request.rank());
  if (found != requests_.end()) *displaced = found->second.call;
  requests_[request.rank()] = {call, request};
  return OkStatus();
}

Status Agreement::Compare(const v1::AgreeRequest& a, const v1::AgreeRequest& b) const {
  const std::string both[] = {label_(a.rank()), label_(b.rank())};
  const int common = std::min(a.tensors_size(), b.tensors_size());
  for (int i = 0; i < common; ++i) {
    const v1::Tensor &left = a.tensors(i), &right = b.tensors(i);
    if (left.name() != right.name()) {
      return Invalid(absl::StrFormat(
          "tensor %d is \"%s\" on %s and \"%s\" on %s: register the same tensors in the same order "
          "on every rank",
          i, left.name(), both[0], right.name(), both[1]));
    }
    if (!SameShape(left, right)) {
      const bool types = left.element_bytes() != right.element_bytes();
      return Invalid(absl::StrFormat(
          "tensor \"%s\" differs: %s on %s, %s on %s: register it alike on every rank", left.name(),
          Shape(left, types), both[0], Shape(right, types), both[1]));
    }
  }
  if (a.tensors_size() != b.tensors_size()) {
    const bool more = a.tensors_size() > b.tensors_size();
    const auto& extra = more ? a.tensors(common) : b.tensors(common);
    return Invalid(absl::StrFormat(
        "%s registered %d tensors, %s %d: \"%s\" is on %s only; register the same on every rank",
        both[0], a.tensors_size(), both[1], b.tensors_size(), extra.name(), both[more ? 0 : 1]));
  }
  return OkStatus();
}

Status Agreement::CompareSettings(const v1::AgreeRequest& a, const v1::AgreeRequest& b) const {
  const std::string both[] = {label_(a.rank()), label_(b.rank())};
  const int common = std::min(a.settings_size(), b.settings_size());
  for (int i = 0; i < common; ++i) {
    const v1::Setting &left = a.settings(i), &right = b.settings(i);
    if (left.name() == right.name() && left.value() == right.value()) continue;
    return Invalid(
        absl::StrFormat("%s is \"%s\" on %s, %s is \"%s\" on %s: set it alike on every rank",
                        left.name(), left.value(), both[0], right.name(), right.value(), both[1]));
  }
  if (a.settings_size() != b.settings_size()) {
    return Invalid(absl::StrFormat("%s has %d settings, %s %d: run the same version on every rank",
                                   both[0], a.settings_size(), both[1], b.settings_size()));
  }
  return OkStatus();
}

bool Agreement::CallGone(CallId call) {
  return std::erase_if(requests_, [&](const auto& entry) { return entry.second.call == call; }) > 0;
}

std::vector<uint32_t> Agreement::Missing() const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!requests_.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

std::vector<CallId> Agreement::Calls() const {
  std::vector<CallId> calls;
  for (const auto& [rank, brought] : requests_) calls.push_back(brought.call);
  return calls;
}

}  // namespace ringwood
