// What every file of the C interface stands on: the handle, its checks, and the translation of
// statuses to codes. client/include/ringwood.h says what the calls promise.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "absl/strings/str_format.h"
#include "client/include/ringwood.h"
#include "client/session.h"

// The handle outlives its session: it is never freed (a few bytes a session), so that a call after
// close is an error and not a crash.
struct ringwood_session {
  pid_t owner = 0;  // the process that opened it; a forked child only reads this
  std::unique_ptr<ringwood::Session> session;
  std::string plan_text;
};

namespace ringwood::c {

// Keeps `message` for ringwood_last_error on this thread; the code.
int Answer(int code, const std::string& message);
int CodeOf(StatusCode code);

// Runs `call`, which returns a Status, and lets nothing be thrown into C.
template <typename Call>
int Run(Call call) {
  try {
    const Status status = call();
    return status.ok() ? RINGWOOD_OK : Answer(CodeOf(status.code()), Message(status));
  } catch (const std::bad_alloc&) {
    return Answer(RINGWOOD_EXHAUSTED, "out of memory");
  } catch (const std::exception& thrown) {
    return Answer(RINGWOOD_INTERNAL, thrown.what());
  }
}

// RINGWOOD_OK when this process may use the open session, else the answer.
int CheckHandle(const ringwood_session* handle);

template <typename Call>
int With(ringwood_session* handle, Call call) {
  const int usable = CheckHandle(handle);
  return usable == RINGWOOD_OK ? Run([&] { return call(*handle->session); }) : usable;
}

// The same question without an answer kept.
inline bool Usable(const ringwood_session* handle) {
  return handle != nullptr && handle->owner == getpid() && handle->session != nullptr;
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
  return OkStatus();
}

inline std::string Text(const char* text, const std::string& otherwise = "") {
  return text != nullptr && *text != '\0' ? text : otherwise;
}

inline StatusOr<std::span<std::byte>> Bytes(void* data, uint64_t bytes) {
  if (data == nullptr && bytes != 0) return Invalid("the data is NULL");
  return std::span(static_cast<std::byte*>(data), bytes);
}

}  // namespace ringwood::c
