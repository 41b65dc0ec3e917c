// The basis of the C interface: the handle, its checks, and the translation of statuses to codes.
// include/ringwood.h says what the calls promise.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/out_of_memory.h"
#include "client/session.h"
#include "include/ringwood.h"

// The handle outlives its session: it is never freed (a hundred bytes a session), so that a call
// after close is an error and not a crash. All handles of the process are in one list, which leak
// checkers can follow. A forked child reads only the owner.
struct ringwood_session {
  explicit ringwood_session(std::unique_ptr<ringwood::Session> opened);

  const pid_t owner;               // the process that opened it
  ringwood_session* next;          // in the list of handles
  std::atomic<bool> taken{false};  // by a call that one thread may make at a time
  absl::Mutex mutex;               // held while the session is read, never while a call waits
  std::unique_ptr<ringwood::Session> session ABSL_GUARDED_BY(mutex);  // null: closed
  int visits ABSL_GUARDED_BY(mutex) = 0;  // calls of any thread, for which a close waits
  std::string plan_text;                  // the last one returned; used by the taker
  ringwood::StepResult step;      // the last one, whose lists the trainer reads; used by the taker
  ringwood::RoundFacts replayed;  // the same of a replay
};

namespace ringwood::c {

// Keeps `message` for ringwood_last_error on this thread; returns the code.
int Answer(int code, const std::string& message);
int CodeOf(StatusCode code);
extern const char kClosed[];

// Runs `call`, which returns a Status; no exception reaches C.
template <typename Call>
int Run(Call call) {
  try {
    const Status status = CatchOutOfMemory(call);
    return status.ok() ? RINGWOOD_OK : Answer(CodeOf(status.code()), Message(status));
  } catch (const std::exception& thrown) {
    return Answer(RINGWOOD_INTERNAL, thrown.what());
  }
}

// RINGWOOD_OK if this process may use the handle, else the code to return.
int CheckHandle(const ringwood_session* handle);

// The newest of all handles.
ringwood_session* NewestHandle();

// A session that is being opened, which ringwood_interrupt finds during its life.
class Opening {
 public:
  explicit Opening(Session* session);
  ~Opening();
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

 private:
  Session* const session_;
};

// RINGWOOD_OK if this process may open a session, else the code to return. gRPC and UCX do not
// survive a fork: a child of a process that has used them would crash its parent, hang, or both.
int ClaimProcess();

// Guards a call that may come from one thread at a time: a second one is an error and not a race.
// The session is not closed during its life.
class Turn {
 public:
  explicit Turn(ringwood_session* handle)
      : handle_(handle), code_(CheckHandle(handle)), mine_(code_ == RINGWOOD_OK && Take()) {}
  ~Turn() {
    if (mine_) handle_->taken.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  int code() const { return code_; }  // RINGWOOD_OK: the session is there and ours
  Session& session() const { return *session_; }

 private:
  bool Take();

  ringwood_session* const handle_;
  Session* session_ = nullptr;
  int code_;
  const bool mine_;
};

// A call that any thread may make, whatever others do, and that may wait. The session is not
// destroyed during its life; when it is closed, what the call waits for ends.
class Visit {
 public:
  explicit Visit(ringwood_session* handle);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  Session* session() const { return session_; }  // null: it is closed

 private:
  ringwood_session* const handle_;
  Session* session_ = nullptr;
};

template <typename Call>
int With(ringwood_session* handle, Call call) {
  const Turn turn(handle);
  return turn.code() == RINGWOOD_OK ? Run([&] { return call(turn.session()); }) : turn.code();
}

// Reads the open session from any thread; `otherwise` if there is none. Keeps an error only if it
// returns a code.
template <typename Value, typename Look>
Value Peek(const ringwood_session* handle, Value otherwise, Look look) {
  if (handle == nullptr || handle->owner != getpid()) return otherwise;
  auto* const open = const_cast<ringwood_session*>(handle);
  absl::ReaderMutexLock lock(&open->mutex);
  return open->session != nullptr ? look(*open->session) : otherwise;
}

// A call that any thread may make and that never waits: a Status on the open session.
template <typename Call>
int Look(const ringwood_session* handle, Call call) {
  if (const int usable = CheckHandle(handle); usable != RINGWOOD_OK) return usable;
  auto* const open = const_cast<ringwood_session*>(handle);
  absl::ReaderMutexLock lock(&open->mutex);
  if (open->session == nullptr) return Answer(RINGWOOD_REFUSED, kClosed);
  return Run([&] { return call(*open->session); });
}

// No version of a struct is larger: a larger size was never set.
constexpr size_t kMaxStructBytes = 4096;

inline Status CheckSize(size_t size, const char* what) {
  if (size >= sizeof(size_t) && size <= kMaxStructBytes) return OkStatus();
  return Invalid(absl::StrFormat("%s.size is %d: set it to sizeof(%s)", what, size, what));
}

// A struct of the caller's version: missing fields keep their defaults.
template <typename T>
StatusOr<T> Read(const T* given, const char* what) {
  if (given == nullptr) return Invalid(absl::StrFormat("%s is NULL", what));
  RW_RETURN_IF_ERROR(CheckSize(given->size, what));
  T value{};
  std::memcpy(static_cast<void*>(&value), given, std::min(given->size, sizeof value));
  return value;
}

// Writes as much of `value` as the caller's version has; its size field stays.
template <typename T>
Status Write(const T& value, T* out, const char* what) {
  RW_RETURN_IF_ERROR(CheckSize(out->size, what));
  const size_t size = out->size;
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof value));
  out->size = size;
  return OkStatus();
}

inline std::string Text(const char* text, const std::string& otherwise = "") {
  return text != nullptr && *text != '\0' ? text : otherwise;
}

StatusOr<ReduceOp> ReduceOf(int op);  // RINGWOOD_SUM, ...

constexpr uint64_t kAddressSpace = uint64_t{1} << 57;  // bytes; that of a process is not larger

inline StatusOr<std::span<std::byte>> Bytes(void* data, uint64_t bytes) {
  if (data == nullptr && bytes != 0) return Invalid("the data is NULL");
  if (bytes > kAddressSpace) {
    return Invalid(absl::StrFormat("%d bytes are more than memory can have", bytes));
  }
  return std::span(static_cast<std::byte*>(data), bytes);
}

}  // namespace ringwood::c
