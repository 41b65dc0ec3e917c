// What all gRPC calls between processes of a job have in common: how long they may take, and how
// their errors become ours.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

// `duration` from now, on the clock by which gRPC takes deadlines.
inline std::chrono::system_clock::time_point DeadlineIn(Duration duration) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
}

// Whether a deployment is opening or closing the job, and wants to be asked again.
inline bool AsksAgain(const grpc::Status& status) {
  constexpr std::string_view kAgain = ": ask again";
  const std::string& text = status.error_message();
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && text.size() >= kAgain.size() &&
         text.compare(text.size() - kAgain.size(), kAgain.size(), kAgain) == 0;
}

// With the same code, as gRPC's are absl's, and the same message. OK stays OK.
inline Status FromGrpc(const grpc::Status& status) {
  return Status(static_cast<StatusCode>(status.error_code()), status.error_message());
}

}  // namespace ringwood
