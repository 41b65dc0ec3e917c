#include "base/status.h"

namespace ringwood {

Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }
Status NotFound(const std::string& message) { return absl::NotFoundError(message); }
Status AlreadyExists(const std::string& message) { return absl::AlreadyExistsError(message); }
Status Refused(const std::string& message) { return absl::FailedPreconditionError(message); }
Status Exhausted(const std::string& message) { return absl::ResourceExhaustedError(message); }
Status Unavailable(const std::string& message) { return absl::UnavailableError(message); }
Status TimedOut(const std::string& message) { return absl::DeadlineExceededError(message); }
Status Aborted(const std::string& message) { return absl::AbortedError(message); }
Status JobEnded(const std::string& message) { return absl::OutOfRangeError(message); }
Status Corrupt(const std::string& message) { return absl::DataLossError(message); }
Status Denied(const std::string& message) { return absl::PermissionDeniedError(message); }
Status Internal(const std::string& message) { return absl::InternalError(message); }

std::string Message(const Status& status) {
  return std::string(status.message().data(), status.message().size());
}

Status Annotate(const Status& status, const std::string& context) {
  if (status.ok()) return status;
  Status annotated(status.code(), context + ": " + Message(status));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

}  // namespace ringwood
