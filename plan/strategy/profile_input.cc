#include "plan/strategy/profile_input.h"

#include "absl/strings/str_format.h"

namespace ringwood {

PlanInput InputOf(const ModelProfile& profile, double density) {
  PlanInput input;
  input.forward_seconds = profile.forward_seconds;
  double forward = 0;
  double selection = 0;
  for (const ProfiledTensor& tensor : profile.tensors) {
    input.tensors.push_back({tensor.name, tensor.elements, "auto", density, tensor.element_bytes});
    input.ready_seconds.push_back(tensor.ready_seconds);
    forward += tensor.forward_seconds;
    selection += tensor.selection_seconds;
  }
  if (forward > 0) {
    for (const ProfiledTensor& tensor : profile.tensors) {
      input.forward_layer_seconds.push_back(tensor.forward_seconds);
    }
    if (input.forward_seconds == 0) input.forward_seconds = forward;
  }
  if (selection > 0) {
    for (const ProfiledTensor& tensor : profile.tensors) {
      input.selection_seconds.push_back(tensor.selection_seconds);
    }
  }
  return input;
}

Status CheckDensities(double density, double max_density) {
  if (density <= max_density) return OkStatus();
  return Invalid(
      absl::StrFormat("--density %g is above --max-density %g; give a --density of at "
                      "most that",
                      density, max_density));
}

}  // namespace ringwood
