// Errors are values. Ringwood speaks absl::Status; this header is the one place that knows that
// Debian's abseil has a string_view of its own and no RETURN_IF_ERROR.
//
// A message says who failed, why, and how to fix it: "rank 2 (host h1) fell silent at step 17
// for 5.0 s: …".
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringwood {

using absl::OkStatus;
using absl::Status;
using absl::StatusCode;
using absl::StatusOr;

Status Invalid(const std::string& message);        // the caller's input is wrong; exit code 78
Status NotFound(const std::string& message);       // the named thing does not exist
Status AlreadyExists(const std::string& message);  // registered or created twice
Status Refused(const std::string& message);        // right input, wrong state or configuration
Status Exhausted(const std::string& message);      // limit exceeded
Status Unavailable(const std::string& message);  // a peer died or cannot be reached; restart helps
Status TimedOut(const std::string& message);     // a deadline passed
Status Aborted(const std::string& message);      // the epoch ended under the operation
Status JobEnded(const std::string& message);     // in order, without this process; code 0
Status Corrupt(const std::string& message);      // a checksum or a format check failed
Status Denied(const std::string& message);       // security: token, TLS, untrusted network
Status Internal(const std::string& message);     // a bug of ours that must not stop the process

// The message alone ("" for OK), as std::string.
std::string Message(const Status& status);

// The same code and payloads with "context: " before the message. OK stays OK.
Status Annotate(const Status& status, const std::string& context);

}  // namespace ringwood

#define RW_CONCAT_INNER(a, b) a##b
#define RW_CONCAT(a, b) RW_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` is an error.
#define RW_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                  \
    if (::ringwood::Status rw_status = (expression); !rw_status.ok()) return rw_status; \
  } while (false)

// RW_ASSIGN_OR_RETURN(auto value, Compute());
#define RW_ASSIGN_OR_RETURN(declaration, expression) \
  RW_ASSIGN_OR_RETURN_INNER(RW_CONCAT(rw_or_, __LINE__), declaration, expression)
#define RW_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                      \
  if (!temporary.ok()) return temporary.status();                     \
  declaration = std::move(temporary).value()
