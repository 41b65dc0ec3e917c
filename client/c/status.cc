#include "base/digest.h"
#include "base/version.h"
#include "client/c/handle.h"

namespace ringwood::c {
namespace {

thread_local std::string last_error;

std::atomic<ringwood_session*> handles{nullptr};  // the newest
std::atomic<pid_t> opener{0};                     // the process that opened a session first

}  // namespace

const char kClosed[] = "the session is closed";

int CodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return RINGWOOD_OK;
    case StatusCode::kInvalidArgument:
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
    case StatusCode::kOutOfRange:
      return RINGWOOD_ENDED;
    default:
      return RINGWOOD_INTERNAL;
  }
}

ringwood_session* NewestHandle() { return handles.load(); }

int Answer(int code, const std::string& message) {
  last_error = message;
  return code;
}

int CheckHandle(const ringwood_session* handle) {
  if (handle == nullptr) return Answer(RINGWOOD_INVALID, "the session is NULL: open one first");
  if (handle->owner != getpid()) {
    return Answer(
        RINGWOOD_FORKED,
        absl::StrFormat("process %d was forked from the one that opened the session (%d): "
                        "only that one may use it",
                        getpid(), handle->owner));
  }
  return RINGWOOD_OK;
}

int ClaimProcess() {
  pid_t first = 0;
  if (opener.compare_exchange_strong(first, getpid()) || first == getpid()) return RINGWOOD_OK;
  return Answer(RINGWOOD_FORKED,
                absl::StrFormat("process %d was forked from process %d after that had opened a "
                                "session: fork before the first session, or start the child as a "
                                "program of its own (exec; in Python the start method 'spawn')",
                                getpid(), first));
}

bool Turn::Take() {
  if (handle_->taken.exchange(true, std::memory_order_acquire)) {
    code_ = Answer(RINGWOOD_REFUSED,
                   "another thread is in a call on this session: all calls but ringwood_ready come "
                   "from one thread at a time");
    return false;
  }
  absl::ReaderMutexLock lock(&handle_->mutex);
  session_ = handle_->session.get();
  if (session_ == nullptr) code_ = Answer(RINGWOOD_REFUSED, kClosed);
  return true;
}

Visit::Visit(ringwood_session* handle) : handle_(handle) {
  absl::MutexLock lock(&handle_->mutex);
  session_ = handle_->session.get();
  if (session_ != nullptr) ++handle_->visits;
}

Visit::~Visit() {
  absl::MutexLock lock(&handle_->mutex);
  if (session_ != nullptr) --handle_->visits;
}

}  // namespace ringwood::c

ringwood_session::ringwood_session(std::unique_ptr<ringwood::Session> opened)
    : owner(getpid()), next(ringwood::c::handles.load()), session(std::move(opened)) {
  while (!ringwood::c::handles.compare_exchange_weak(next, this)) {
  }
}

extern "C" {

const char* ringwood_strerror(int code) {
  switch (code) {
    case RINGWOOD_OK:
      return "ok";
    case RINGWOOD_INVALID:
      return "invalid input";
    case RINGWOOD_NOT_FOUND:
      return "not found";
    case RINGWOOD_EXISTS:
      return "already exists";
    case RINGWOOD_REFUSED:
      return "refused in this state";
    case RINGWOOD_EXHAUSTED:
      return "limit exceeded";
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
    case RINGWOOD_ENDED:
      return "the job ended in order";
    default:
      return "unknown code";
  }
}

int ringwood_exit_code(int code) {
  switch (code) {
    case RINGWOOD_OK:
    case RINGWOOD_ENDED:
      return 0;
    case RINGWOOD_INVALID:
    case RINGWOOD_NOT_FOUND:
    case RINGWOOD_EXISTS:
    case RINGWOOD_REFUSED:
    case RINGWOOD_EXHAUSTED:
    case RINGWOOD_DENIED:
      return 78;
    case RINGWOOD_UNAVAILABLE:
    case RINGWOOD_TIMED_OUT:
    case RINGWOOD_ABORTED:
      return 75;
    default:
      return 1;
  }
}

const char* ringwood_last_error(void) { return ringwood::c::last_error.c_str(); }

const char* ringwood_version(void) { return ringwood::Version(); }

uint64_t ringwood_digest(const void* data, uint64_t bytes) {
  return ringwood::Digest({static_cast<const std::byte*>(data), bytes});
}

}  // extern "C"
