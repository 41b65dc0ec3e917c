// abseil's locks as ThreadSanitizer must see them; linked into the tsan preset only. Debian's
// abseil is not instrumented, so without these every field that absl::Mutex guards would be
// reported. The program's own definitions are found before the shared library's, which they call.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace {

// The shared library's definition of a member, by its mangled name.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// The count of a shared Status is let go inside the library too.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:absl::debian3::Status::Unref\n";
}

namespace absl {

void Mutex::Lock() {
  static auto* const next = Next<void(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  next(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static auto* const next = Next<void(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  next(this);
}

void Mutex::Await(const Condition& condition) {
  static auto* const next =
      Next<void(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  next(this, condition);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const next = Next<bool(Mutex*, const Condition&, Duration)>(
      "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  const bool met = next(this, condition, timeout);
  __tsan_acquire(this);
  return met;
}

void Notification::Notify() {
  static auto* const next = Next<void(Notification*)>("_ZN4absl7debian312Notification6NotifyEv");
  __tsan_release(this);
  next(this);
}

void Notification::WaitForNotification() const {
  static auto* const next =
      Next<void(const Notification*)>("_ZNK4absl7debian312Notification19WaitForNotificationEv");
  next(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const next = Next<bool(const Notification*, Duration)>(
      "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = next(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

}  // namespace absl
