// The C interface: opening, closing and what a session is.
#include <grpc/grpc.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <vector>

#include "client/c/fork_guard.h"
#include "client/c/handle.h"
#include "client/grpc/parts.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::StatusOr;
using ringwood::c::ClaimProcess;
using ringwood::c::Peek;
using ringwood::c::Read;
using ringwood::c::Run;
using ringwood::c::Text;
using ringwood::c::Turn;
using ringwood::c::Write;

namespace {

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
  result.or_start = options.resume == RINGWOOD_RESUME_OR_START;
  result.job = options.job;
  result.momentum = options.momentum;
  result.planner = Text(options.planner, result.planner);
  result.log_level = Text(options.log_level, result.log_level);
  result.wire = Text(options.wire, result.wire);
  result.sparse_codec = Text(options.sparse_codec, result.sparse_codec);
  result.sparse_merge = Text(options.sparse_merge, result.sparse_merge);
  result.sparse_chunk = options.sparse_chunk;
  result.sparse_method = Text(options.sparse_method, result.sparse_method);
  result.timeline = Text(options.timeline);
  result.flight_record = Text(options.flight_record);
  result.transport = Text(options.transport, result.transport);
  if (options.join_timeout_seconds != 0) result.join_timeout_seconds = options.join_timeout_seconds;
  result.adapt = options.adapt != 0;
  result.freeze_plan = Text(options.freeze_plan);
  result.save_plan = Text(options.save_plan);
  result.profile = Text(options.profile);
  result.warmup_steps = options.warmup_steps;
  result.momentum_masking = options.momentum_masking >= 0;
  result.clip_norm = options.clip_norm;
  if (options.sparse_keep != 0) result.sparse_keep = options.sparse_keep;
  result.port_range = Text(options.port_range);
  return result;
}

// For a caller: NULL where there is none.
const char* Given(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

// A copy whose strings live as long as the process and never change: the caller has nothing that
// would free them. Equal options are one copy, so that asking again takes no memory.
const ringwood::SessionOptions* Keep(const ringwood::SessionOptions& found) {
  struct Kept {
    absl::Mutex mutex;
    std::list<ringwood::SessionOptions> options ABSL_GUARDED_BY(mutex);
  };
  static auto* const kept = new Kept();
  absl::MutexLock lock(&kept->mutex);
  const auto equal = std::find(kept->options.begin(), kept->options.end(), found);
  return equal != kept->options.end() ? &*equal : &kept->options.emplace_back(found);
}

}  // namespace

extern "C" {

int ringwood_options_from_environment(ringwood_options* options, size_t size) {
  return Run([&]() -> Status {
    if (options == nullptr) return Invalid("ringwood_options is NULL");
    RW_ASSIGN_OR_RETURN(
        const ringwood::SessionOptions found,
        ringwood::OptionsFromEnvironment([](const char* name) { return std::getenv(name); }));
    const ringwood::SessionOptions* const kept = Keep(found);
    ringwood_options value{};
    value.coordinator = kept->coordinator.c_str();
    value.rank = kept->rank;
    value.world = kept->world;
    value.host = kept->host.c_str();
    value.interface_name = Given(kept->network_interface);
    value.trusted_fabric = kept->trusted_fabric;
    value.token = Given(kept->token);
    value.resume = kept->or_start ? static_cast<int>(RINGWOOD_RESUME_OR_START) : kept->resume;
    value.job = kept->job;
    value.momentum = kept->momentum;
    value.planner = kept->planner.c_str();
    value.log_level = kept->log_level.c_str();
    value.wire = kept->wire.c_str();
    value.sparse_codec = kept->sparse_codec.c_str();
    value.sparse_merge = kept->sparse_merge.c_str();
    value.sparse_chunk = kept->sparse_chunk;
    value.sparse_method = kept->sparse_method.c_str();
    value.transport = kept->transport.c_str();
    value.join_timeout_seconds = kept->join_timeout_seconds;
    value.timeline = Given(kept->timeline);
    value.flight_record = Given(kept->flight_record);
    value.adapt = kept->adapt;
    value.freeze_plan = Given(kept->freeze_plan);
    value.save_plan = Given(kept->save_plan);
    value.profile = Given(kept->profile);
    value.warmup_steps = kept->warmup_steps;
    value.momentum_masking = kept->momentum_masking ? 1 : -1;
    value.clip_norm = kept->clip_norm;
    value.sparse_keep = kept->sparse_keep;
    value.port_range = Given(kept->port_range);
    options->size = size;
    return Write(value, options, "ringwood_options");
  });
}

int ringwood_open(const ringwood_options* options, ringwood_session** session) {
  ringwood::SessionOptions read;
  const int code = Run([&]() -> Status {
    if (session == nullptr) return Invalid("the place for the session is NULL");
    *session = nullptr;
    RW_ASSIGN_OR_RETURN(read, OptionsOf(options));
    return ringwood::Check(read);
  });
  if (code != RINGWOOD_OK) return code;
  if (const int claimed = ClaimProcess(); claimed != RINGWOOD_OK) return claimed;
  const std::vector<int> before = ringwood::EpollSets();
  // gRPC stays to the end of the process: each start of it takes memory that it never gives back.
  static const bool started = (grpc_init(), true);
  (void)started;
  const int opened = Run([&]() -> Status {
    RW_ASSIGN_OR_RETURN(ringwood::Parts parts, ringwood::MakeParts(read));
    RW_ASSIGN_OR_RETURN(auto made, ringwood::Session::Open(read, std::move(parts)));
    *session = new ringwood_session(std::move(made));
    return ringwood::OkStatus();
  });
  ringwood::GuardEpollSetsSince(before);
  if (opened != RINGWOOD_OK) ringwood::ForgetClosedEpollSets();
  return opened;
}

int ringwood_close(ringwood_session* session, const char* failure) {
  if (session == nullptr) return RINGWOOD_OK;
  const Turn turn(session);
  if (turn.code() != RINGWOOD_OK) return turn.code();
  const int code = Run([&] { return turn.session().Close(Text(failure)); });
  session->plan_text = {};
  std::unique_ptr<ringwood::Session> ended;  // destroyed without the lock
  {
    absl::MutexLock lock(&session->mutex);
    ended.swap(session->session);
  }
  ended.reset();
  ringwood::ForgetClosedEpollSets();
  return code;
}

int ringwood_rank(const ringwood_session* session) {
  return Peek(session, -1, [](auto& open) { return open.rank(); });
}

int ringwood_world(const ringwood_session* session) {
  return Peek(session, -1, [](auto& open) { return open.world(); });
}

uint64_t ringwood_epoch(const ringwood_session* session) {
  return Peek(session, uint64_t{0}, [](auto& open) { return open.epoch(); });
}

uint64_t ringwood_step(const ringwood_session* session) {
  return Peek(session, uint64_t{0}, [](auto& open) { return open.step(); });
}

int ringwood_resumed(const ringwood_session* session) {
  return Peek(session, 0, [](auto& open) { return open.resumed() ? 1 : 0; });
}

}  // extern "C"
