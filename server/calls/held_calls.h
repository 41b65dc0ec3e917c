// gRPC calls that wait for a decision without a thread each: the reactor is kept in a table by its
// CallId until the loop answers it. Every call is answered exactly once.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/text.h"

namespace ringwood {

// A status is sent in HTTP/2 headers, which both ends limit to 8 KiB (and a byte of it may take
// three): a longer one would be replaced by another error.
inline constexpr size_t kMaxStatusBytes = 1024;

inline grpc::Status ToGrpc(const Status& status) {
  // absl's codes are gRPC's.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Shortened(Message(status), kMaxStatusBytes));
}

// The request of a call that waits is kept. Whoever may call can have many of them wait, so those
// that need not come from a member of the epoch are small: fields that nobody knows count too.
inline constexpr size_t kMaxWaitingBytes = 64 << 10;

template <typename Request>
Status CheckMayWait(const Request& request) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes <= kMaxWaitingBytes) return OkStatus();
  return Invalid(absl::StrFormat("a request of %d bytes is none: at most %d are possible here",
                                 bytes, kMaxWaitingBytes));
}

// A unary call that is answered later. Deletes itself when gRPC is done with it; the owner of the
// CallId answers it once and does not use it afterwards.
template <typename Response>
class HeldCall : public grpc::ServerUnaryReactor {
 public:
  // `gone` runs if the caller goes away before the answer, on a thread of gRPC's.
  HeldCall(Response* response, std::function<void()> gone)
      : response_(response), gone_(std::move(gone)) {}

  void Answer(Response response) {
    *response_ = std::move(response);
    Finish(grpc::Status::OK);
  }
  void Answer(const Status& status) { Finish(ToGrpc(status)); }

 private:
  void OnCancel() override { gone_(); }
  void OnDone() override { delete this; }

  Response* const response_;
  const std::function<void()> gone_;
};

}  // namespace ringwood
