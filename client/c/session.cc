// The C interface: opening, closing and what a session is.
#include <grpc/grpc.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/files/descriptors.h"
#include "base/files/threads.h"
#include "base/log.h"
#include "client/c/fork_guard.h"
#include "client/c/handle.h"
#include "client/grpc/parts.h"
#include "client/options/c_options.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::StatusOr;
using ringwood::c::ClaimProcess;
using ringwood::c::Peek;
using ringwood::c::Read;
using ringwood::c::Run;
using ringwood::c::Text;
using ringwood::c::Turn;

namespace {

// Of a session and of gRPC, which hangs where it cannot start its own: ours, gRPC's timers and
// executors, and those that poll for it, as many as gRPC's callback queues have.
int ThreadsOfASession() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return 12 + std::clamp(cores / 2, 2, 16);
}

}  // namespace

extern "C" {

int ringwood_open(const ringwood_options* options, ringwood_session** session) {
  ringwood::SessionOptions read;
  const int code = Run([&]() -> Status {
    if (session == nullptr) return Invalid("the place for the session is NULL");
    *session = nullptr;
    RW_ASSIGN_OR_RETURN(const ringwood_options given, Read(options, "ringwood_options"));
    RW_ASSIGN_OR_RETURN(read, ringwood::FromC(given));
    RW_RETURN_IF_ERROR(ringwood::Check(read));
    return ringwood::ReserveDescriptors();
  });
  if (code != RINGWOOD_OK) return code;
  if (const int claimed = ClaimProcess(); claimed != RINGWOOD_OK) return claimed;
  ringwood::HoldStandardDescriptors();
  const std::vector<int> before = ringwood::EpollSets();
  static std::atomic<bool> threads_found{false};
  if (!threads_found) {
    const int found = Run([] { return ringwood::CheckThreads(ThreadsOfASession()); });
    if (found != RINGWOOD_OK) return found;
    threads_found = true;
  }
  // gRPC stays to the end of the process: each start of it takes memory that it never gives back.
  static const bool started = (grpc_init(), true);
  (void)started;
  const int opened = Run([&]() -> Status {
    RW_ASSIGN_OR_RETURN(ringwood::Parts parts, ringwood::MakeParts(read));
    RW_ASSIGN_OR_RETURN(auto made, ringwood::Session::Make(read, std::move(parts)));
    const ringwood::c::Opening opening(made.get());
    RW_RETURN_IF_ERROR(made->Enter());
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
    session->mutex.Await(absl::Condition(
        +[](ringwood_session* handle)
             ABSL_NO_THREAD_SAFETY_ANALYSIS { return handle->visits == 0; },
        session));
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

int ringwood_slot(const ringwood_session* session) {
  return Peek(session, -1, [](auto& open) { return open.slot(); });
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
