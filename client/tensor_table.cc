#include "client/tensor_table.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "client/names.h"
#include "dense/lattice/codes.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

constexpr uint32_t kMaxTurns = 4096;  // more than a model has layers

}  // namespace

Status TensorTable::Check(const Tensor& tensor) const {
  const TensorSpec& spec = tensor.spec;
  RW_RETURN_IF_ERROR(CheckName("the tensor's name", spec.name));
  RW_RETURN_IF_ERROR(CheckElements(tensor));
  if (spec.route != "dense" && spec.route != "sparse" && spec.route != "auto") {
    return Invalid(absl::StrFormat("tensor '%s': the route '%s' is none of dense, sparse, auto",
                                   spec.name, spec.route));
  }
  for (const auto& [name, value] :
       {std::pair("density", spec.density), std::pair("momentum", tensor.momentum.value_or(0)),
        std::pair("clip_norm", ClipNorm(tensor))}) {
    RW_RETURN_IF_ERROR(Annotate(CheckRange(name, value), "tensor '" + spec.name + "'"));
  }
  if (!(tensor.wire_reach >= kLeastWireReach && tensor.wire_reach <= 1)) {
    return Invalid(absl::StrFormat("tensor '%s' has wire_reach = %g: from %g to 1", spec.name,
                                   tensor.wire_reach, kLeastWireReach));
  }
  RW_RETURN_IF_ERROR(CheckPlace(tensor));
  RW_RETURN_IF_ERROR(CheckTurns(tensor));
  if (names_.count(spec.name) != 0) {
    return AlreadyExists(absl::StrFormat("tensor '%s' is registered twice", spec.name));
  }
  return OkStatus();
}

Status TensorTable::CheckElements(const Tensor& tensor) const {
  const TensorSpec& spec = tensor.spec;
  if (spec.elements == 0 || tensor.data == nullptr) {
    return Invalid(
        absl::StrFormat("tensor '%s' of %d elements at %p: elements and memory are needed",
                        spec.name, spec.elements, tensor.data));
  }
  if (spec.elements > UINT32_MAX) {
    return Invalid(absl::StrFormat("tensor '%s' has %d elements, at most 2^32 - 1 are possible",
                                   spec.name, spec.elements));
  }
  if (tensor.type == DataType::kFloat32) return OkStatus();
  std::string why;
  if (tensor.type == DataType::kBFloat16 && spec.route == "sparse") {
    why = ", and what is sparse is float32:";
  } else if (tensor.type == DataType::kBFloat16 && options_.wire != "native") {
    why = absl::StrFormat(", which travels as it is, and --wire is %s: leave that at native, or",
                          options_.wire);
  } else if (tensor.type == DataType::kBFloat16) {
    return OkStatus();
  }
  return Invalid(absl::StrFormat("tensor '%s' is %s%s make it float32 before ready", spec.name,
                                 NameOf(tensor.type), why.empty() ? ":" : why));
}

int TensorTable::Add(const Tensor& tensor) {
  names_.insert(tensor.spec.name);
  apart_ = false;
  tensors_.push_back(std::make_unique<Tensor>(tensor));
  Tensor& added = *tensors_.back();
  added.spec.element_bytes = static_cast<uint32_t>(SizeOf(added.type));
  if (added.type != DataType::kFloat32) added.spec.route = "dense";
  if (tensor.device && tensor.spec.route == "auto") {
    if (const Status can = CheckSelection(tensor); !can.ok()) {
      Log(LogLevel::kInfo, Message(can) + ": it is dense");
      added.spec.route = "dense";
    }
  }
  added.norm_limit = NormLimit(added);
  const double reach = std::min(added.wire_reach, tensors_.front()->wire_reach);
  for (const auto& each : tensors_) each->wire_reach = reach;
  return static_cast<int>(tensors_.size() - 1);
}

Status TensorTable::CheckApart() const {
  if (apart_) return OkStatus();
  std::vector<const Tensor*> by_place = ById();
  std::ranges::sort(by_place, {}, &Tensor::data);
  for (size_t i = 1; i < by_place.size(); ++i) {
    const Tensor& lower = *by_place[i - 1];
    if (lower.bytes().data() + lower.bytes().size() <= by_place[i]->data) continue;
    return Invalid(absl::StrFormat(
        "rank %d: the tensors '%s' and '%s' are in the same memory: each gradient needs memory of "
        "its own, and weights that two layers share are one tensor, registered once",
        options_.rank, lower.spec.name, by_place[i]->spec.name));
  }
  apart_ = true;
  return OkStatus();
}

// The sum of P independent gradients of norm c / sqrt(P) has the norm c.
double TensorTable::NormLimit(const Tensor& tensor) const {
  return ClipNorm(tensor) / std::sqrt(world_);
}

void TensorTable::TakeWorld(int world) {
  world_ = world;
  for (const auto& tensor : tensors_) tensor->norm_limit = NormLimit(*tensor);
}

Status TensorTable::CheckId(int id) const {
  if (id >= 0 && static_cast<size_t>(id) < tensors_.size()) return OkStatus();
  return Invalid(absl::StrFormat("rank %d: there is no tensor %d, %d are registered", options_.rank,
                                 id, tensors_.size()));
}

uint64_t TensorTable::dense_bytes() const {
  uint64_t bytes = 0;
  for (const auto& tensor : tensors_) bytes += tensor->bytes().size();
  return bytes;
}

std::vector<size_t> TensorTable::IdsOf(const Group& group) const {
  std::vector<size_t> ids;
  for (const uint32_t index : group.tensors) ids.push_back(IdOf({index}));
  return ids;
}

std::vector<const Tensor*> TensorTable::ById() const {
  std::vector<const Tensor*> tensors;
  for (const auto& tensor : tensors_) tensors.push_back(tensor.get());
  return tensors;
}

std::vector<TensorSpec> TensorTable::Specs() const {
  std::vector<TensorSpec> specs;
  for (auto tensor = tensors_.rbegin(); tensor != tensors_.rend(); ++tensor) {
    specs.push_back((*tensor)->spec);
  }
  return specs;
}

void TensorTable::Describe(v1::AgreeRequest* request) const {
  for (uint32_t index = 0; index < tensors_.size(); ++index) {
    const size_t id = IdOf({index});
    v1::Tensor* const added = request->add_tensors();
    *added = ToProto(tensors_[id]->spec);
    added->set_momentum(momentum(id));
    added->set_clip_norm(ClipNorm(*tensors_[id]));
  }
}

Status TensorTable::CheckTurns(const Tensor& tensor) const {
  const auto bad = [&tensor](const std::string& what) {
    return Invalid("tensor '" + tensor.spec.name + "' " + what);
  };
  if (!(tensor.decay > 0 && tensor.decay <= 1)) {
    return bad(absl::StrFormat("has residual_decay = %g: above 0, at most 1", tensor.decay));
  }
  if (tensor.turns < 1 || tensor.turns > kMaxTurns || tensor.turn >= tensor.turns) {
    return bad(absl::StrFormat("has turn %d of %d: turns are 1 to %d, and its turn is below them",
                               static_cast<int>(tensor.turn), static_cast<int>(tensor.turns),
                               kMaxTurns));
  }
  if (tensor.turns > 1 && tensor.spec.route == "auto") {
    return bad("takes turns: say whether it is dense or sparse, the planner does not weigh turns");
  }
  if (tensor.device && (tensor.turns > 1 || tensor.decay != 1)) {
    return bad(
        "is on a device, where there are neither turns nor a residual_decay: copy it to the "
        "host");
  }
  return OkStatus();
}

std::vector<uint32_t> TensorTable::Turns() const {
  std::vector<uint32_t> turns;
  for (auto tensor = tensors_.rbegin(); tensor != tensors_.rend(); ++tensor) {
    turns.push_back((*tensor)->turns * kMaxTurns + (*tensor)->turn);
  }
  return turns;
}

std::string TensorTable::DescribeTurns() const {
  std::string text;
  for (const auto& tensor : tensors_) {
    if (tensor->turns == 1 && tensor->decay == 1) continue;
    absl::StrAppendFormat(&text, "%s%s %d/%d *%g", text.empty() ? "" : ", ", tensor->spec.name,
                          tensor->turn, tensor->turns, tensor->decay);
  }
  return text;
}

// All tensors of a session are on the host or all on one device, on every rank: groups are then of
// one kind, and the ring has one order of calls.
bool TensorTable::IsOnDevice() const {
  return !tensors_.empty() && tensors_.front()->device.has_value();
}

Status TensorTable::CheckPlace(const Tensor& tensor) const {
  if (tensor.device && tensor.spec.route == "sparse") RW_RETURN_IF_ERROR(CheckSelection(tensor));
  if (tensors_.empty()) return OkStatus();
  const std::optional<OnDevice>& first = tensors_.front()->device;
  const bool alike = first.has_value() == tensor.device.has_value() &&
                     (!first.has_value() || first->index == tensor.device->index);
  if (alike) return OkStatus();
  return Invalid(absl::StrFormat(
      "tensor '%s' is not where '%s' is: the tensors of a session are all on the host or all on "
      "one device",
      tensor.spec.name, tensors_.front()->spec.name));
}

// These options are equal on all ranks (the coordinator compares them), so all ranks refuse.
Status TensorTable::CheckSelection(const Tensor& tensor) const {
  std::string option, remedy;
  if (options_.sparse_chunk != 0) {
    option = absl::StrFormat("sparse_chunk = %d", options_.sparse_chunk);
    remedy = "set sparse_chunk to 0";
  } else if (options_.sparse_method != "exact") {
    option = absl::StrFormat("sparse_method = %s", options_.sparse_method);
    remedy = "use the method exact";
  } else if (ClipNorm(tensor) != 0) {
    option = absl::StrFormat("clip_norm = %g", ClipNorm(tensor));
    remedy = "set clip_norm to 0 and clip where the gradient is made";
  }
  if (option.empty()) return OkStatus();
  return Invalid(
      absl::StrFormat("tensor '%s' is on a device, where nothing is selected with %s: %s, make the "
                      "tensor dense, or copy it to the host",
                      tensor.spec.name, option, remedy));
}

}  // namespace ringwood
