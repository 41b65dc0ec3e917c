// The C interface: tensors and steps.
#include "client/c/handle.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::c::Look;
using ringwood::c::Read;
using ringwood::c::Text;
using ringwood::c::Turn;
using ringwood::c::With;
using ringwood::c::Write;

extern "C" {

int ringwood_register(ringwood_session* session, const ringwood_tensor* tensor, int* id) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const ringwood_tensor given, Read(tensor, "ringwood_tensor"));
    if (given.type != RINGWOOD_FLOAT32 && given.type != RINGWOOD_BFLOAT16) {
      return Invalid(
          absl::StrFormat("tensor '%s' has element type %d: gradients are float32 or "
                          "bfloat16 here, convert before ready",
                          Text(given.name), given.type));
    }
    ringwood::Tensor value;
    value.spec.name = Text(given.name);
    value.spec.elements = given.elements;
    value.spec.route = Text(given.route, "auto");
    if (given.density != 0) value.spec.density = given.density;
    value.data = given.data;
    value.type = static_cast<ringwood::DataType>(given.type);
    // Negative: none. NaN stays what it is, and is refused.
    if (given.momentum != 0) value.momentum = given.momentum < 0 ? 0 : given.momentum;
    if (given.memory == RINGWOOD_CUDA) {
      value.device = ringwood::OnDevice{given.device, given.stream};
    } else if (given.memory != RINGWOOD_HOST) {
      return Invalid(absl::StrFormat("tensor '%s' is in memory of the unknown kind %d",
                                     value.spec.name, given.memory));
    }
    if (given.clip_norm != 0) value.clip_norm = given.clip_norm < 0 ? 0 : given.clip_norm;
    if (given.residual_decay != 0) value.decay = given.residual_decay;
    if (given.wire_reach != 0) value.wire_reach = given.wire_reach;
    if (given.turn != 0 || given.turns != 0) {
      value.turn = static_cast<uint32_t>(given.turn);  // a negative one is refused as too large
      value.turns = static_cast<uint32_t>(given.turns);
    }
    RW_ASSIGN_OR_RETURN(const int number, open.Register(value));
    if (id != nullptr) *id = number;
    return ringwood::OkStatus();
  });
}

int ringwood_rebind(ringwood_session* session, int id, void* data) {
  return With(session, [&](auto& open) { return open.Rebind(id, data); });
}

int ringwood_agree(ringwood_session* session) {
  return With(session, [](auto& open) { return open.Agree(); });
}

const char* ringwood_plan_text(ringwood_session* session) {
  const Turn turn(session);
  if (turn.code() != RINGWOOD_OK || turn.session().plan_text().empty()) return nullptr;
  session->plan_text = turn.session().plan_text();
  return session->plan_text.c_str();
}

const char* ringwood_route(const ringwood_session* session, int id) {
  // A call of the trainer's changes it, so this is one like them. It keeps nothing in the handle.
  const Turn turn(const_cast<ringwood_session*>(session));
  if (turn.code() != RINGWOOD_OK) return nullptr;
  const std::string route = turn.session().route(id);
  return route == "ring" ? "ring" : route == "tree" ? "tree" : nullptr;
}

int ringwood_begin_step(ringwood_session* session, double weight) {
  return With(session, [&](auto& open) { return open.BeginStep(weight); });
}

int ringwood_begin_pass(ringwood_session* session, double weight, uint32_t pass) {
  return With(session, [&](auto& open) { return open.BeginStep(weight, pass); });
}

int ringwood_leave_after_step(ringwood_session* session) {
  return With(session, [](auto& open) { return open.LeaveAfterStep(); });
}

int ringwood_leave(ringwood_session* session, int leaves) {
  return With(session, [&](auto& open) -> Status {
    if (leaves != 0 && leaves != 1) {
      return Invalid(absl::StrFormat("leaves = %d: it is 1 or 0", leaves));
    }
    return open.Leave(leaves != 0);
  });
}

int ringwood_ask_to_end(ringwood_session* session) {
  return Look(session, [](auto& open) {
    open.AskToEnd();
    return ringwood::OkStatus();
  });
}

int ringwood_loaded(ringwood_session* session) {
  return Look(session, [](auto& open) {
    open.Loaded();
    return ringwood::OkStatus();
  });
}

int ringwood_ready(ringwood_session* session, int id) {
  return Look(session, [&](auto& open) { return open.Ready(id); });
}

int ringwood_finish_step(ringwood_session* session, ringwood_step_result* result) {
  return With(session, [&](auto& open) -> Status {
    // Refused before the step is: afterwards an error would say that nothing was applied.
    if (result != nullptr) {
      RW_RETURN_IF_ERROR(ringwood::c::CheckSize(result->size, "ringwood_step_result"));
    }
    RW_ASSIGN_OR_RETURN(session->step, open.FinishStep());
    if (result == nullptr) return ringwood::OkStatus();
    const ringwood::StepResult& step = session->step;
    ringwood_step_result value{};
    value.step = step.step;
    value.skipped = step.skipped;
    value.total_weight = step.total_weight;
    value.dense_bytes = step.dense_bytes;
    value.sparse_bytes = step.sparse_bytes;
    value.dense_equivalent_bytes = step.dense_equivalent_bytes;
    value.members = step.members.data();
    value.member_count = step.members.size();
    value.contributors = step.contributors.data();
    value.contributor_count = step.contributors.size();
    value.exchanged_again = step.exchanged_again;
    value.received = step.received;
    value.checkpoint_due = step.checkpoint_due;
    value.ending = step.ending;
    return Write(value, result, "ringwood_step_result");
  });
}

int ringwood_residual(ringwood_session* session, int id, float* out, uint64_t elements) {
  return With(session, [&](auto& open) -> Status {
    if (out == nullptr) return Invalid("the residual's memory is NULL");
    return open.Residual(id, std::span(out, elements));
  });
}

}  // extern "C"
