// gRPC's credentials, made in one place: mutual TLS (1.2 or newer) between processes whose
// certificates one authority issued. Both sides must have a certificate, and whom it names is
// compared with whom the other side meant to speak with. For servers that are not ours there is
// HostCredentials.
//
// The files are read again every few seconds, so that a renewed certificate is used for the next
// connection; those that stand are kept.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "identity/identity.h"

struct grpc_auth_context;
struct grpc_server_credentials;

namespace grpc {
class AuthContext;
class ChannelArguments;
class ChannelCredentials;
class ServerCredentials;
namespace experimental {
class FileWatcherCertificateProvider;
}
}  // namespace grpc

namespace ringwood {

// Immutable; any thread. What it makes may outlive it.
class Credentials {
 public:
  // Of the identity in `folder`, which counts at `now` (Unix time); errors as ReadIdentity.
  static StatusOr<std::shared_ptr<const Credentials>> Open(const std::string& folder, int64_t now);

  const Identity& identity() const { return identity_; }
  const IdentityName& name() const { return identity_.name; }

  // Of a channel to this member of the own job; kAnySlot: to any of that role.
  std::shared_ptr<grpc::ChannelCredentials> ForCalling(IdentityRole role, int slot) const;

  // Of a listener. Certificates of the authority are let in, whoever they name: the first thing
  // that a caller says has to agree with PeerName. NewForListening is released by the caller.
  std::shared_ptr<grpc::ServerCredentials> ForListening() const;
  grpc_server_credentials* NewForListening() const;

  // The caller of a connection that came in; Denied: it may not speak with this process.
  StatusOr<IdentityName> PeerName(const grpc::AuthContext& context) const;
  StatusOr<IdentityName> PeerName(const grpc_auth_context* context) const;

 private:
  explicit Credentials(Identity identity);

  const Identity identity_;
  const std::shared_ptr<grpc::experimental::FileWatcherCertificateProvider> files_;
};

// Of a client of somebody else's servers, whose certificates name the hosts that they are called
// at. Immutable; any thread. What it makes may outlive it.
class HostCredentials {
 public:
  // Errors as ReadHostTrust.
  static StatusOr<std::shared_ptr<const HostCredentials>> Open(const std::string& folder,
                                                               const std::string& what,
                                                               int64_t now);

  const HostTrust& trust() const { return trust_; }
  std::shared_ptr<grpc::ChannelCredentials> ForCalling() const;

 private:
  explicit HostCredentials(HostTrust trust);

  const HostTrust trust_;
  const std::shared_ptr<grpc::experimental::FileWatcherCertificateProvider> files_;
};

// What a channel with Credentials::ForCalling's credentials needs beside them.
void SetTlsArguments(grpc::ChannelArguments* arguments);

}  // namespace ringwood
