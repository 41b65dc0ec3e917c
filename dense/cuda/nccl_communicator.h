// One rank's communicator of NCCL's. Its calls do not block: a call returns while NCCL is still
// taking it, and until NCCL, asked again and again, says that it has, no other call may follow and
// nothing may be put on its stream.
//
// On the ring's thread, but for Release, which may hang and therefore gets a thread of its own.
// Needs NCCL's functions only, so that tests run it over a stand-in.
#pragma once

#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/status.h"
#include "dense/cuda/nccl_library.h"

namespace ringwood {

// NCCL finishes most calls within microseconds: so long it is asked without a pause, then by timer.
constexpr double kNcclSpinSeconds = 50e-6;
constexpr double kNcclPollSeconds = 200e-6;

class NcclCommunicator {
 public:
  // In a world of one it joins nobody, and makes no call.
  NcclCommunicator(nccl::Library library, int rank) : library_(std::move(library)), rank_(rank) {}

  const nccl::Library& library() const { return library_; }
  // Null until it has joined.
  nccl::Communicator* get() const { return communicator_; }
  // All ranks have come, as far as this one was told.
  bool ready() const { return ready_; }
  // The result of the last call is not known yet.
  bool asking() const { return asking_; }

  // Does not wait for the other ranks. `id` has nccl::kIdBytes.
  Status Join(int world, const std::string& id) {
    asking_ = true;
    nccl::Id bytes;
    std::memcpy(bytes.bytes, id.data(), sizeof bytes.bytes);
    nccl::Config config{sizeof(nccl::Config), 0xcafebeefu, static_cast<unsigned>(nccl::kMinVersion),
                        0};
    return Check(library_.comm_init_rank_config(&communicator_, world, bytes, rank_, &config),
                 "join the ring");
  }

  // Unavailable says what NCCL says; a call that it is still taking is fine.
  Status Check(int result, const std::string& what) const {
    if (nccl::IsFine(result)) return OkStatus();
    const char* detail =
        communicator_ != nullptr ? library_.get_last_error(communicator_) : nullptr;
    return Unavailable(absl::StrFormat(
        "rank %d: %s: NCCL says \"%s\"%s%s", rank_, what, library_.get_error_string(result),
        detail != nullptr && *detail != 0 ? ": " : "", detail != nullptr ? detail : ""));
  }

  // `result` is what a call of NCCL's returned: from here on asking() until Settle says otherwise.
  Status Called(int result, const std::string& what) {
    asking_ = result == nccl::kInProgress;
    return Check(result, what);
  }

  // Asks NCCL how it is, which may be an error that it found by itself. True: it has nothing to do.
  StatusOr<bool> Ask(const std::string& what) {
    int state = nccl::kSuccess;
    RW_RETURN_IF_ERROR(Check(library_.comm_get_async_error(communicator_, &state), "ask NCCL"));
    RW_RETURN_IF_ERROR(Check(state, what));
    ready_ |= state == nccl::kSuccess;
    return state == nccl::kSuccess;
  }

  // True: NCCL is ready for the next call. False: not within kNcclSpinSeconds, to be asked again.
  StatusOr<bool> Settle() {
    const TimePoint until = Now() + Seconds(kNcclSpinSeconds);
    while (asking_) {
      RW_ASSIGN_OR_RETURN(const bool taken, Ask(ready_ ? "run a collective" : "join the ring"));
      asking_ = !taken;
      if (asking_ && Now() > until) return false;
    }
    return true;
  }

  // Lets go of what Join made: nothing else may be called then. Where everything has ended
  // (`orderly`) NCCL first delivers what peers still wait for; what takes longer than
  // `patience_seconds`, and all else, is aborted. May hang.
  void Release(bool orderly, double patience_seconds) const {
    const bool delivered = orderly && Finalize(patience_seconds);
    (delivered ? library_.comm_destroy : library_.comm_abort)(communicator_);
  }

 private:
  // True: peers have all that they wait for. False also where a call fails: NCCL does not destroy a
  // communicator that has failed, and frees nothing of it.
  bool Finalize(double patience_seconds) const {
    const TimePoint until = Now() + Seconds(patience_seconds);
    int result = library_.comm_finalize(communicator_), state = nccl::kInProgress;
    while (nccl::IsFine(result) && state == nccl::kInProgress && Now() < until) {
      result = library_.comm_get_async_error(communicator_, &state);
      if (state == nccl::kInProgress) std::this_thread::sleep_for(Seconds(kNcclPollSeconds));
    }
    return nccl::IsFine(result) && state == nccl::kSuccess;
  }

  const nccl::Library library_;
  const int rank_;
  nccl::Communicator* communicator_ = nullptr;
  bool ready_ = false;
  bool asking_ = false;
};

}  // namespace ringwood
