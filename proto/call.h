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

// Whether the same call may succeed in a moment: a deployment is opening or closing the job and
// wants to be asked again, or gRPC gave up a connection that was being made. Before 1.61 it reads
// connect()'s errno when other calls may have overwritten it (its pull request 35064); under load
// the outcome was now and then "No such file or directory", which no connection has.
inline bool AsksAgain(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return false;
  const std::string text = status.error_message();  // a copy: gRPC returns one, too
  for (const std::string_view end : {": ask again", ": No such file or directory"}) {
    if (text.ends_with(end)) return true;
  }
  return false;
}

// With the same code, as gRPC's are absl's, and the same message. OK stays OK.
inline Status FromGrpc(const grpc::Status& status) {
  return Status(static_cast<StatusCode>(status.error_code()), status.error_message());
}

}  // namespace ringwood
