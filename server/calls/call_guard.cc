#include "server/calls/call_guard.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <ctime>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "server/calls/call_rights.h"

namespace ringwood {
namespace {

// "ringwood token issue" and the variables are named in every refusal: who calls has to know one.
constexpr char kGiveIt[] = "give the token of this job (RINGWOOD_TOKEN_FILE, or RINGWOOD_TOKEN)";
constexpr char kGiveNewer[] =
    "have a newer one made with `ringwood token issue` and give it with RINGWOOD_TOKEN_FILE";

std::string_view TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

StatusOr<TokenRights> CheckOne(const std::string& secret, std::string_view token,
                               const std::string& call, int64_t now) {
  StatusOr<TokenRights> rights = CheckToken(secret, token, now);
  if (rights.ok()) return rights;
  const std::string why = Message(rights.status());
  const bool expired = why.find("expired") != std::string::npos;
  return Denied(absl::StrFormat("%s has %s: %s", call, why, expired ? kGiveNewer : kGiveIt));
}

void ProcessCall(void* state, grpc_auth_context*, const grpc_metadata* metadata, size_t count,
                 grpc_process_auth_metadata_done_cb done, void* user_data) {
  const auto& secret = *static_cast<const std::string*>(state);
  std::string_view method;
  std::vector<std::string_view> tokens;
  for (size_t i = 0; i < count; ++i) {
    if (grpc_slice_str_cmp(metadata[i].key, ":path") == 0) method = TextOf(metadata[i].value);
    if (grpc_slice_str_cmp(metadata[i].key, kTokenKey) == 0) {
      tokens.push_back(TextOf(metadata[i].value));
    }
  }
  const Status admitted = AdmitCall(secret, method, tokens, std::time(nullptr));
  if (admitted.ok()) return done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
  done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_PERMISSION_DENIED, Message(admitted).c_str());
}

// gRPC's C++ wrapper of plaintext credentials takes no processor, what it wraps does.
class GuardedCredentials : public grpc::ServerCredentials {
 public:
  explicit GuardedCredentials(const std::string& secret)
      : credentials_(grpc_insecure_server_credentials_create()) {
    const auto destroy = [](void* state) { delete static_cast<std::string*>(state); };
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {ProcessCall, destroy, new std::string(secret)});
  }
  ~GuardedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    RW_CHECK(false);  // there is one already
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

Status AdmitCall(const std::string& secret, std::string_view method,
                 std::span<const std::string_view> tokens, int64_t now) {
  const CallRight* const right = RightOf(method);
  const std::string call = right == nullptr ? "this call" : "the call " + CallName(right->method);
  if (tokens.empty()) return Denied(absl::StrFormat("%s has no token: %s", call, kGiveIt));
  if (tokens.size() > 1) {
    return Denied(
        absl::StrFormat("%s has %d tokens, one is allowed: %s", call, tokens.size(), kGiveIt));
  }
  RW_ASSIGN_OR_RETURN(const TokenRights rights, CheckOne(secret, tokens[0], call, now));
  // gRPC answers calls that do not exist itself.
  if (right == nullptr || (rights.roles & right->roles) != 0) return OkStatus();
  return Denied(absl::StrFormat(
      "%s needs a token of the role %s, this one is of the role %s: have one made with `ringwood "
      "token issue --role %s` and give it with RINGWOOD_TOKEN_FILE",
      call, RoleNames(right->roles), RoleNames(rights.roles),
      RoleNames(right->roles & -right->roles)));
}

Status AdmitReader(const std::string& secret, std::string_view token, int64_t now) {
  return CheckOne(secret, token, "this request", now).status();
}

Status AdmitRole(const grpc::ServerContextBase& context, v1::Role role) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kTokenKey);
  if (found == metadata.end()) return OkStatus();  // the server has no secret
  const unsigned roles = ClaimedRoles({found->second.data(), found->second.size()});
  const CallerRole needed = role == v1::ROLE_REDUCER ? kServerRole : kRankRole;
  if ((roles & needed) != 0) return OkStatus();
  return Denied(absl::StrFormat(
      "the call Coordinator.Join as a %s needs a token of that role, this one is of the role %s: "
      "have one made with `ringwood token issue --role %s` and give it with RINGWOOD_TOKEN_FILE",
      RoleNames(needed), RoleNames(roles), RoleNames(needed)));
}

std::shared_ptr<grpc::ServerCredentials> TokenCredentials(const std::string& secret) {
  if (secret.empty()) return grpc::InsecureServerCredentials();
  return std::make_shared<GuardedCredentials>(secret);
}

}  // namespace ringwood
