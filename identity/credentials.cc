#include "identity/credentials.h"

#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

namespace ringwood {
namespace {

namespace tls = grpc::experimental;

constexpr size_t kLineBytes = 500;

constexpr unsigned kReadAgainSeconds = 5;

// Whether a line of the library says something new: where a connection is tried again and again,
// each failure has the same few.
class Repetition {
 public:
  bool IsNew(std::string_view line, TimePoint now) {
    const absl::MutexLock lock(&mutex_);
    if (now - since_ > kWindow) {
      said_.clear();
      since_ = now;
    }
    return said_.size() >= kMostLines || said_.emplace(line).second;
  }

 private:
  static constexpr Duration kWindow = std::chrono::seconds(10);
  static constexpr size_t kMostLines = 100;  // in a window; those beyond are all new
  absl::Mutex mutex_;
  std::set<std::string> said_ ABSL_GUARDED_BY(mutex_);  // in this window
  TimePoint since_ ABSL_GUARDED_BY(mutex_);
};

// The library writes a line for each failed handshake, and strangers can make as many as they like:
// ours are limited. And one for each that this process's own closing cut off: that is no error.
void LogLibraryLine(gpr_log_func_args* line) {
  if (line->severity != GPR_LOG_SEVERITY_ERROR) return;
  if (std::string_view(line->message).find("::cancel_check_peer") != std::string_view::npos) return;
  static Repetition* const repetition = new Repetition;  // threads of the library outlive statics
  if (!repetition->IsNew(line->message, Now())) return;
  Log(LogLevel::kWarning, "grpc", Printable(line->message, kLineBytes));
}

grpc::Status ToGrpcStatus(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, Message(status));
}

StatusOr<IdentityName> MeetPeer(const IdentityName& self, const std::string& uri, size_t uris) {
  if (uris != 1) {
    return Denied(absl::StrFormat(
        "the certificate of the other side has %d URIs among its subject alternative names, not "
        "the one that says who it is",
        uris));
  }
  RW_ASSIGN_OR_RETURN(const IdentityName peer, ParseIdentityName(uri));
  RW_RETURN_IF_ERROR(MayMeet(self, peer));
  return peer;
}

// The client's look at the certificate of the server that answered, after its chain was verified.
class MeantPeer : public tls::ExternalCertificateVerifier {
 public:
  MeantPeer(IdentityName self, IdentityRole role, int slot)
      : self_(std::move(self)), role_(role), slot_(slot) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* answer) override {
    *answer = ToGrpcStatus(Check(request->uri_names()));
    return true;  // answered at once
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  Status Check(const std::vector<grpc::string_ref>& uris) const {
    const std::string uri = uris.empty() ? "" : std::string(uris[0].data(), uris[0].size());
    RW_ASSIGN_OR_RETURN(const IdentityName peer, MeetPeer(self_, uri, uris.size()));
    return IsMeant(peer, role_, slot_);
  }

  const IdentityName self_;
  const IdentityRole role_;
  const int slot_;
};

// Once for the process.
void LimitLibraryLines() {
  static const bool limited = (gpr_set_log_function(LogLibraryLine), true);
  (void)limited;
}

tls::TlsServerCredentialsOptions ListeningOptions(
    const std::shared_ptr<tls::FileWatcherCertificateProvider>& files) {
  tls::TlsServerCredentialsOptions options(files);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_check_call_host(false);
  // Chain and time are checked by TLS itself. Names are compared where a sentence can be answered.
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  return options;
}

}  // namespace

Credentials::Credentials(Identity identity)
    : identity_(std::move(identity)),
      files_(std::make_shared<tls::FileWatcherCertificateProvider>(
          identity_.key_file(), identity_.certificate_file(), identity_.authority_file(),
          kReadAgainSeconds)) {}

StatusOr<std::shared_ptr<const Credentials>> Credentials::Open(const std::string& folder,
                                                               int64_t now) {
  RW_ASSIGN_OR_RETURN(Identity identity, ReadIdentity(folder, now));
  LimitLibraryLines();
  return std::shared_ptr<const Credentials>(new Credentials(std::move(identity)));
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForCalling(IdentityRole role,
                                                                  int slot) const {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(files_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  options.set_check_call_host(false);  // names are URIs, hosts have none
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<MeantPeer>(identity_.name, role, slot));
  return tls::TlsCredentials(options);
}

grpc_server_credentials* Credentials::NewForListening() const {
  return grpc_tls_server_credentials_create(ListeningOptions(files_).c_credentials_options());
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForListening() const {
  return tls::TlsServerCredentials(ListeningOptions(files_));
}

StatusOr<IdentityName> Credentials::PeerName(const grpc::AuthContext& context) const {
  const auto uris = context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME);
  return MeetPeer(identity_.name, uris.empty() ? "" : std::string(uris[0].data(), uris[0].size()),
                  uris.size());
}

StatusOr<IdentityName> Credentials::PeerName(const grpc_auth_context* context) const {
  grpc_auth_property_iterator values =
      grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME);
  std::string uri;
  size_t uris = 0;
  while (const grpc_auth_property* const value = grpc_auth_property_iterator_next(&values)) {
    if (uris++ == 0) uri.assign(value->value, value->value_length);
  }
  return MeetPeer(identity_.name, uri, uris);
}

HostCredentials::HostCredentials(HostTrust trust)
    : trust_(std::move(trust)),
      files_(trust_.has_certificate ? std::make_shared<tls::FileWatcherCertificateProvider>(
                                          trust_.key_file(), trust_.certificate_file(),
                                          trust_.authority_file(), kReadAgainSeconds)
                                    : std::make_shared<tls::FileWatcherCertificateProvider>(
                                          trust_.authority_file(), kReadAgainSeconds)) {}

StatusOr<std::shared_ptr<const HostCredentials>> HostCredentials::Open(const std::string& folder,
                                                                       const std::string& what,
                                                                       int64_t now) {
  RW_ASSIGN_OR_RETURN(HostTrust trust, ReadHostTrust(folder, what, now));
  LimitLibraryLines();
  return std::shared_ptr<const HostCredentials>(new HostCredentials(std::move(trust)));
}

std::shared_ptr<grpc::ChannelCredentials> HostCredentials::ForCalling() const {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(files_);
  options.watch_root_certs();
  if (trust_.has_certificate) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  options.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
  return tls::TlsCredentials(options);
}

void SetTlsArguments(grpc::ChannelArguments* arguments) {
  arguments->SetSslTargetNameOverride(kTlsHostName);
}

}  // namespace ringwood
