// The C interface: what a process waits for ends because its user stops it.
#include <set>

#include "client/c/handle.h"

namespace ringwood::c {
namespace {

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);

// Never destroyed: another thread may interrupt while the process exits.
std::set<Session*>& Opened() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  static auto* const sessions = new std::set<Session*>();
  return *sessions;
}

}  // namespace

Opening::Opening(Session* session) : session_(session) {
  absl::MutexLock lock(&mutex);
  Opened().insert(session_);
}

Opening::~Opening() {
  absl::MutexLock lock(&mutex);
  Opened().erase(session_);
}

}  // namespace ringwood::c

extern "C" {

void ringwood_interrupt(void) {
  using ringwood::c::NewestHandle;
  {
    absl::MutexLock lock(&ringwood::c::mutex);
    for (ringwood::Session* session : ringwood::c::Opened()) session->Interrupt();
  }
  for (ringwood_session* handle = NewestHandle(); handle != nullptr; handle = handle->next) {
    if (handle->owner != getpid()) continue;
    const ringwood::c::Visit visit(handle);
    if (visit.session() != nullptr) visit.session()->Interrupt();
  }
}

}  // extern "C"
