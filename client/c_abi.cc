// The C interface over Session: checks pointers, sizes and forks, translates statuses to codes.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/strings/str_format.h"
#include "client/grpc/parts.h"
#include "client/include/ringwood.h"
#include "client/session.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::StatusCode;
using ringwood::StatusOr;

// The handle outlives its session: it is never freed (a few bytes a session), so that a call after
// close is an error and not a crash.
struct ringwood_session {
  pid_t owner = 0;  // the process that opened it; a forked child only reads this
  std::unique_ptr<ringwood::Session> session;
  std::string plan_text;
};

namespace {

thread_local std::string last_error;

int CodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return RINGWOOD_OK;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return RINGWOOD_INVALID;
    case StatusCode::kNotFound:
      return RINGWOOD_NOT_FOUND;
    case StatusCode::kAlreadyExists:
      return RINGWOOD_EXISTS;
    case StatusCode::kFailedPrecondition:
      return RINGWOOD_REFUSED;
    case StatusCode::kResourceExhausted:
      return RINGWOOD_EXHAUSTED;
    case StatusCode::kUnavailable:
      return RINGWOOD_UNAVAILABLE;
    case StatusCode::kDeadlineExceeded:
      return RINGWOOD_TIMED_OUT;
    case StatusCode::kAborted:
    case StatusCode::kCancelled:
      return RINGWOOD_ABORTED;
    case StatusCode::kDataLoss:
      return RINGWOOD_CORRUPT;
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
      return RINGWOOD_DENIED;
    default:
      return RINGWOOD_INTERNAL;
  }
}

int Answer(int code, const std::string& message) {
  last_error = message;
  return code;
}

// Runs `call`, which returns a Status, and lets nothing be thrown into C.
template <typename Call>
int Run(Call call) {
  try {
    const Status status = call();
    return status.ok() ? RINGWOOD_OK : Answer(CodeOf(status.code()), ringwood::Message(status));
  } catch (const std::bad_alloc&) {
    return Answer(RINGWOOD_EXHAUSTED, "out of memory");
  } catch (const std::exception& thrown) {
    return Answer(RINGWOOD_INTERNAL, thrown.what());
  }
}

template <typename Call>
int With(ringwood_session* handle, Call call) {
  if (handle == nullptr) return Answer(RINGWOOD_INVALID, "the session is NULL: open one first");
  if (handle->owner != getpid()) {
    return Answer(
        RINGWOOD_FORKED,
        absl::StrFormat("process %d was forked from the one that opened the session (%d): "
                        "only that one may use it",
                        getpid(), handle->owner));
  }
  if (!handle->session) return Answer(RINGWOOD_REFUSED, "the session is closed");
  return Run([&] { return call(*handle->session); });
}

// A struct of the caller's version: missing fields keep their defaults.
template <typename T>
StatusOr<T> Read(const T* given, const char* what) {
  if (given == nullptr) return Invalid(absl::StrFormat("%s is NULL", what));
  if (given->size < sizeof(given->size)) {
    return Invalid(absl::StrFormat("%s.size is %d: set it to sizeof", what, given->size));
  }
  T value{};
  std::memcpy(static_cast<void*>(&value), given, std::min(given->size, sizeof value));
  return value;
}

// Writes as much of `value` as the caller's version has; its size field stays.
template <typename T>
Status Write(const T& value, T* out, const char* what) {
  if (out->size < sizeof(out->size)) {
    return Invalid(absl::StrFormat("%s.size is %d: set it to sizeof", what, out->size));
  }
  const size_t size = out->size;
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof value));
  out->size = size;
  return ringwood::OkStatus();
}

std::string Text(const char* text, const std::string& otherwise = "") {
  return text != nullptr && *text != '\0' ? text : otherwise;
}

StatusOr<ringwood::SessionOptions> OptionsOf(const ringwood_options* given) {
  RW_ASSIGN_OR_RETURN(const ringwood_options options, Read(given, "ringwood_options"));
  ringwood::SessionOptions result;
  result.coordinator = Text(options.coordinator);
  result.rank = options.rank;
  result.world = options.world;
  result.host = Text(options.host, result.host);
  result.network_interface = Text(options.interface_name);
  result.trusted_fabric = options.trusted_fabric != 0;
  result.token = Text(options.token);
  result.resume = options.resume != 0;
  result.momentum = options.momentum;
  result.planner = Text(options.planner, result.planner);
  result.log_level = Text(options.log_level, result.log_level);
  if (options.join_timeout_seconds != 0) result.join_timeout_seconds = options.join_timeout_seconds;
  return result;
}

StatusOr<std::span<std::byte>> Bytes(void* data, uint64_t bytes) {
  if (data == nullptr && bytes != 0) return Invalid("the data is NULL");
  return std::span(static_cast<std::byte*>(data), bytes);
}

StatusOr<bool> IsShared(int scope) {
  if (scope == RINGWOOD_SHARED || scope == RINGWOOD_OWN) return scope == RINGWOOD_SHARED;
  return Invalid(absl::StrFormat("scope %d is neither RINGWOOD_SHARED nor RINGWOOD_OWN", scope));
}

bool Usable(const ringwood_session* handle) {
  return handle != nullptr && handle->owner == getpid() && handle->session != nullptr;
}

}  // namespace

extern "C" {

int ringwood_options_from_environment(ringwood_options* options, size_t size) {
  return Run([&]() -> Status {
    if (options == nullptr) return Invalid("ringwood_options is NULL");
    RW_ASSIGN_OR_RETURN(auto found, ringwood::OptionsFromEnvironment(
                                        [](const char* name) { return std::getenv(name); }));
    // The strings live as long as the process: the caller has nothing that would free them.
    static auto* const kept = new ringwood::SessionOptions();
    *kept = found;
    ringwood_options value{};
    value.coordinator = kept->coordinator.c_str();
    value.rank = kept->rank;
    value.world = kept->world;
    value.host = kept->host.c_str();
    value.interface_name =
        kept->network_interface.empty() ? nullptr : kept->network_interface.c_str();
    value.trusted_fabric = kept->trusted_fabric;
    value.token = kept->token.empty() ? nullptr : kept->token.c_str();
    value.resume = kept->resume;
    value.momentum = kept->momentum;
    value.planner = kept->planner.c_str();
    value.log_level = kept->log_level.c_str();
    value.join_timeout_seconds = kept->join_timeout_seconds;
    options->size = size;
    return Write(value, options, "ringwood_options");
  });
}

int ringwood_open(const ringwood_options* options, ringwood_session** session) {
  return Run([&]() -> Status {
    if (session == nullptr) return Invalid("the place for the session is NULL");
    *session = nullptr;
    RW_ASSIGN_OR_RETURN(const ringwood::SessionOptions read, OptionsOf(options));
    RW_ASSIGN_OR_RETURN(auto opened, ringwood::Session::Open(read, ringwood::MakeParts(read)));
    *session = new ringwood_session{getpid(), std::move(opened), ""};
    return ringwood::OkStatus();
  });
}

int ringwood_close(ringwood_session* session, const char* failure) {
  if (session == nullptr) return RINGWOOD_OK;
  const int code = With(session, [&](auto& open) { return open.Close(Text(failure)); });
  if (Usable(session)) session->session.reset();
  return code;
}

int ringwood_rank(const ringwood_session* session) {
  return Usable(session) ? session->session->rank() : -1;
}
int ringwood_world(const ringwood_session* session) {
  return Usable(session) ? session->session->world() : -1;
}
uint64_t ringwood_epoch(const ringwood_session* session) {
  return Usable(session) ? session->session->epoch() : 0;
}
uint64_t ringwood_step(const ringwood_session* session) {
  return Usable(session) ? session->session->step() : 0;
}
int ringwood_resumed(const ringwood_session* session) {
  return Usable(session) && session->session->resumed() ? 1 : 0;
}

int ringwood_register(ringwood_session* session, const ringwood_tensor* tensor, int* id) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const ringwood_tensor given, Read(tensor, "ringwood_tensor"));
    if (given.type != RINGWOOD_FLOAT32) {
      return Invalid(absl::StrFormat(
          "tensor '%s' has element type %d: gradients are float32 here, convert before ready",
          Text(given.name), given.type));
    }
    ringwood::Tensor value;
    value.spec.name = Text(given.name);
    value.spec.elements = given.elements;
    value.spec.route = Text(given.route, "auto");
    if (given.density != 0) value.spec.density = given.density;
    value.data = static_cast<float*>(given.data);
    RW_ASSIGN_OR_RETURN(const int number, open.Register(value));
    if (id != nullptr) *id = number;
    return ringwood::OkStatus();
  });
}

int ringwood_rebind(ringwood_session* session, int id, void* data) {
  return With(session, [&](auto& open) { return open.Rebind(id, static_cast<float*>(data)); });
}

int ringwood_agree(ringwood_session* session) {
  return With(session, [](auto& open) { return open.Agree(); });
}

const char* ringwood_plan_text(ringwood_session* session) {
  if (!Usable(session) || session->session->plan_text().empty()) return nullptr;
  session->plan_text = session->session->plan_text();
  return session->plan_text.c_str();
}

int ringwood_begin_step(ringwood_session* session, double weight) {
  return With(session, [&](auto& open) { return open.BeginStep(weight); });
}

int ringwood_ready(ringwood_session* session, int id) {
  return With(session, [&](auto& open) { return open.Ready(id); });
}

int ringwood_finish_step(ringwood_session* session, ringwood_step_result* result) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const ringwood::StepResult step, open.FinishStep());
    if (result == nullptr) return ringwood::OkStatus();
    ringwood_step_result value{};
    value.step = step.step;
    value.skipped = step.skipped;
    value.total_weight = step.total_weight;
    value.dense_bytes = step.dense_bytes;
    value.sparse_bytes = step.sparse_bytes;
    value.dense_equivalent_bytes = step.dense_equivalent_bytes;
    return Write(value, result, "ringwood_step_result");
  });
}

int ringwood_residual(ringwood_session* session, int id, float* out, uint64_t elements) {
  return With(session, [&](auto& open) -> Status {
    if (out == nullptr) return Invalid("the residual's memory is NULL");
    return open.Residual(id, std::span(out, elements));
  });
}

int ringwood_allreduce(ringwood_session* session, void* data, uint64_t elements, int type, int op) {
  return With(session, [&](auto& open) -> Status {
    const auto element = static_cast<ringwood::DataType>(type);
    const size_t size = type > 0 && type < 256 ? ringwood::SizeOf(element) : 0;
    if (size == 0) return Invalid(absl::StrFormat("there is no element type %d", type));
    if (op < RINGWOOD_SUM || op > RINGWOOD_MIN) {
      return Invalid(absl::StrFormat("there is no operation %d", op));
    }
    if (elements > UINT64_MAX / size) return Invalid("more elements than memory can have");
    RW_ASSIGN_OR_RETURN(const auto bytes, Bytes(data, elements * size));
    const auto reduce = op == RINGWOOD_MAX   ? ringwood::ReduceOp::kMax
                        : op == RINGWOOD_MIN ? ringwood::ReduceOp::kMin
                                             : ringwood::ReduceOp::kSum;
    return open.AllReduce(bytes, element, reduce, op == RINGWOOD_AVERAGE);
  });
}

int ringwood_broadcast(ringwood_session* session, void* data, uint64_t bytes, int root) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const auto span, Bytes(data, bytes));
    return open.Broadcast(span, root);
  });
}

int ringwood_checkpoint(ringwood_session* session, const ringwood_item* items, size_t count) {
  return With(session, [&](auto& open) -> Status {
    if (items == nullptr && count != 0) return Invalid("the items are NULL");
    std::vector<ringwood::Item> list;
    const char* at = reinterpret_cast<const char*>(items);
    for (size_t i = 0; i < count; ++i) {
      const auto* given = reinterpret_cast<const ringwood_item*>(at);
      RW_ASSIGN_OR_RETURN(const ringwood_item item, Read(given, "ringwood_item"));
      RW_ASSIGN_OR_RETURN(const bool shared, IsShared(item.scope));
      RW_ASSIGN_OR_RETURN(const auto data, Bytes(const_cast<void*>(item.data), item.bytes));
      list.push_back({Text(item.name), shared, data});
      at += given->size;  // the caller's version of the struct
    }
    return open.Checkpoint(std::move(list));
  });
}

int ringwood_checkpoint_wait(ringwood_session* session) {
  return With(session, [](auto& open) { return open.CheckpointWait(); });
}

int ringwood_restore_bytes(ringwood_session* session, const char* name, int scope,
                           uint64_t* bytes) {
  return With(session, [&](auto& open) -> Status {
    if (bytes == nullptr) return Invalid("the place for the size is NULL");
    RW_ASSIGN_OR_RETURN(const bool shared, IsShared(scope));
    RW_ASSIGN_OR_RETURN(*bytes, open.RestoreBytes(Text(name), shared));
    return ringwood::OkStatus();
  });
}

int ringwood_restore(ringwood_session* session, const char* name, int scope, void* out,
                     uint64_t bytes) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const bool shared, IsShared(scope));
    RW_ASSIGN_OR_RETURN(const auto span, Bytes(out, bytes));
    return open.RestoreItem(Text(name), shared, span);
  });
}

const char* ringwood_strerror(int code) {
  switch (code) {
    case RINGWOOD_OK:
      return "ok";
    case RINGWOOD_INVALID:
      return "invalid input";
    case RINGWOOD_NOT_FOUND:
      return "not found";
    case RINGWOOD_EXISTS:
      return "registered twice";
    case RINGWOOD_REFUSED:
      return "refused in this state";
    case RINGWOOD_EXHAUSTED:
      return "over a limit";
    case RINGWOOD_UNAVAILABLE:
      return "a peer or the coordinator died";
    case RINGWOOD_TIMED_OUT:
      return "timed out";
    case RINGWOOD_ABORTED:
      return "the epoch ended";
    case RINGWOOD_CORRUPT:
      return "corrupt data";
    case RINGWOOD_DENIED:
      return "denied";
    case RINGWOOD_INTERNAL:
      return "internal error";
    case RINGWOOD_FORKED:
      return "used in a forked child";
    default:
      return "unknown code";
  }
}

const char* ringwood_last_error(void) { return last_error.c_str(); }

const char* ringwood_version(void) { return "0.1.0"; }

}  // extern "C"
