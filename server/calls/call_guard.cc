#include "server/calls/call_guard.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "proto/access.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "server/calls/call_rights.h"

namespace ringwood {
namespace {

// "ringwood token issue" and the variables are named in every refusal: who calls has to know one.
constexpr char kGiveIt[] = "give the token of this job (RINGWOOD_TOKEN_FILE, or RINGWOOD_TOKEN)";
constexpr char kGiveNewer[] =
    "have a newer one made with `ringwood token issue` and give it with RINGWOOD_TOKEN_FILE";

constexpr char kOurs[] = "/ringwood.v1.";
constexpr char kDeployments[] = "/ringwood.v1.Deployment/";

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

// What a server asks of a call.
struct Door {
  std::string secret;                              // empty: no token
  std::shared_ptr<const Credentials> credentials;  // null: no certificate
  TurnOfCall turn;                                 // null: the secret is no deployment's
  Turns* turns = nullptr;
};

// Where one deployment serves many jobs, tokens name theirs.
Status AdmitJob(const IdentityName& caller, std::string_view token) {
  const std::string job(JobOfToken(token));
  if (job.empty() || caller.job == job || caller.job == kAnyJob) return OkStatus();
  return Denied(absl::StrFormat(
      "this call has a token of the job %s and the certificate %s: give the process both of its "
      "own job",
      job, ToUri(caller)));
}

Status AdmitBoth(const Door& door, const grpc_auth_context* caller, std::string_view method,
                 std::span<const std::string_view> tokens) {
  if (door.credentials != nullptr) {
    RW_ASSIGN_OR_RETURN(const IdentityName name, door.credentials->PeerName(caller));
    RW_RETURN_IF_ERROR(AdmitName(name, method));
    if (!tokens.empty()) RW_RETURN_IF_ERROR(AdmitJob(name, tokens[0]));
  }
  if (door.secret.empty()) return OkStatus();
  const auto admit = door.turn ? AdmitDeploymentCall : AdmitCall;
  return admit(door.secret, method, tokens, std::time(nullptr));
}

void ProcessCall(void* state, grpc_auth_context* caller, const grpc_metadata* metadata,
                 size_t count, grpc_process_auth_metadata_done_cb done, void* user_data) {
  std::string_view method;
  std::vector<std::string_view> tokens;
  for (size_t i = 0; i < count; ++i) {
    if (grpc_slice_str_cmp(metadata[i].key, ":path") == 0) method = TextOf(metadata[i].value);
    if (grpc_slice_str_cmp(metadata[i].key, kTokenKey) == 0) {
      tokens.push_back(TextOf(metadata[i].value));
    }
  }
  const Door& door = *static_cast<const Door*>(state);
  const Status admitted = AdmitBoth(door, caller, method, tokens);
  if (!admitted.ok()) {
    return done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_PERMISSION_DENIED,
                Message(admitted).c_str());
  }
  const auto go = [done, user_data] {
    done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
  };
  if (!door.turn) return go();
  const StatusOr<Duration> turn = door.turn(tokens[0]);
  if (turn.ok()) return door.turns->After(*turn, go);
  done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(turn.status().code()),
       Message(turn.status()).c_str());
}

// gRPC's C++ wrapper of plaintext credentials takes no processor, what it wraps does.
class DoorCredentials : public grpc::ServerCredentials {
 public:
  explicit DoorCredentials(Door door)
      : credentials_(door.credentials == nullptr ? grpc_insecure_server_credentials_create()
                                                 : door.credentials->NewForListening()) {
    const auto destroy = [](void* state) { delete static_cast<Door*>(state); };
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {ProcessCall, destroy, new Door(std::move(door))});
  }
  ~DoorCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    RW_CHECK(false);  // there is one already
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

unsigned RoleOf(const IdentityName& caller) {
  if (caller.role == IdentityRole::kRank) return kRankRole;
  return caller.role == IdentityRole::kServer ? kServerRole | kObserverRole : kObserverRole;
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

Status AdmitDeploymentCall(const std::string& secret, std::string_view method,
                           std::span<const std::string_view> tokens, int64_t now) {
  const bool of_a_job = tokens.size() == 1 && !JobOfToken(tokens[0]).empty();
  const std::string& own = of_a_job ? SecretFor(secret, tokens[0]) : secret;
  RW_RETURN_IF_ERROR(AdmitCall(own, method, tokens, now));
  const bool jobs_own = method.rfind(kOurs, 0) == 0 && method.rfind(kDeployments, 0) != 0;
  if (of_a_job || !jobs_own) return OkStatus();
  return Denied(absl::StrFormat(
      "the call %s is one of a job, and the deployment's secret names none: have the job's made "
      "with `ringwood token job NAME` and give it with RINGWOOD_TOKEN_FILE",
      CallName(method)));
}

std::string SecretFor(const std::string& deployment_secret, std::string_view token) {
  const std::string job(JobOfToken(token));
  return job.empty() ? deployment_secret : JobSecret(deployment_secret, job);
}

Status AdmitReader(const std::string& secret, std::string_view token, int64_t now) {
  return CheckOne(secret, token, "this request", now).status();
}

Status AdmitName(const IdentityName& caller, std::string_view method) {
  const CallRight* const right = RightOf(method);
  if (right == nullptr || (RoleOf(caller) & right->roles) != 0) return OkStatus();
  return Denied(absl::StrFormat(
      "the call %s needs a certificate of the role %s, this one is %s: give the process its own "
      "(--identity, RINGWOOD_IDENTITY)",
      CallName(right->method), RoleNames(right->roles), ToUri(caller)));
}

Claimant::Claimant(const grpc::ServerContextBase& context, v1::Role role)
    : role_(role), admitted_(AdmitRole(context, role)) {
  const auto uris = context.auth_context()->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME);
  if (uris.empty()) return;  // plaintext: TLS connections have one
  StatusOr<IdentityName> name = ParseIdentityName(std::string(uris[0].data(), uris[0].size()));
  if (name.ok()) {
    name_ = *std::move(name);
  } else if (admitted_.ok()) {
    admitted_ = name.status();
  }
}

Status Claimant::MayBe(uint32_t slot) const {
  if (!admitted_.ok() || !name_) return admitted_;
  return MayClaim(*name_, IdentityRoleOf(role_), static_cast<int>(slot));
}

std::shared_ptr<grpc::ServerCredentials> GuardedCredentials(
    const std::string& secret, const std::shared_ptr<const Credentials>& credentials,
    TurnOfCall turn, Turns* turns) {
  if (secret.empty() && credentials == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<DoorCredentials>(Door{secret, credentials, std::move(turn), turns});
}

}  // namespace ringwood
