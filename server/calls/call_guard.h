// Decides who may call: one place for all services, calls and streams. gRPC asks it about every
// call, also of methods that do not exist, before the call is processed.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "identity/credentials.h"
#include "ringwood/v1/control.pb.h"
#include "server/calls/turns.h"

namespace ringwood {

// The decision: whether a call of `method` with these tokens of its metadata may be processed, for
// a job with this secret. Denied: a sentence with the call, what is wrong, and the remedy.
Status AdmitCall(const std::string& secret, std::string_view method,
                 std::span<const std::string_view> tokens, int64_t now_unix_seconds);

// The same where the secret is a deployment's. A call of one job needs a token of that job, which
// names it; the deployment's own are for what concerns all jobs.
Status AdmitDeploymentCall(const std::string& secret, std::string_view method,
                           std::span<const std::string_view> tokens, int64_t now_unix_seconds);

// The secret of the job that a token names, or the deployment's.
std::string SecretFor(const std::string& deployment_secret, std::string_view token);

// AdmitCall for one token, as who reads on another way than gRPC brings it; any role may read.
Status AdmitReader(const std::string& secret, std::string_view token, int64_t now_unix_seconds);

// The same for the caller's certificate. Denied names its URI.
Status AdmitName(const IdentityName& caller, std::string_view method);

// Who a call that was admitted may say that it comes from. A value, for who learns only later which
// member that is.
class Claimant {
 public:
  Claimant(const grpc::ServerContextBase& context, v1::Role role);

  // As what it was started: the token is of the role, and the certificate, where the connection has
  // one, is that member's.
  Status MayBe(uint32_t slot) const;
  const Status& admitted() const { return admitted_; }  // by its role alone

 private:
  v1::Role role_;
  Status admitted_;
  std::optional<IdentityName> name_;  // nothing: plaintext
};

// Of a secret that is a deployment's: when the turn of an admitted call comes, by its token; an
// error refuses it. Any thread.
using TurnOfCall = std::function<StatusOr<Duration>(std::string_view token)>;

// A call that is not admitted ends with PERMISSION_DENIED. No secret: no token is asked for. No
// credentials: plaintext. `turn`: null: the secret is a job's; else calls wait in `turns`, which
// outlives the server.
std::shared_ptr<grpc::ServerCredentials> GuardedCredentials(
    const std::string& secret, const std::shared_ptr<const Credentials>& credentials,
    TurnOfCall turn = nullptr, Turns* turns = nullptr);

}  // namespace ringwood
