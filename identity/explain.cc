#include "identity/explain.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>

#include "absl/strings/str_format.h"
#include "identity/openssl.h"

namespace ringwood {
namespace {

using TlsContext = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using TlsConnection = std::unique_ptr<SSL, OpensslFree<SSL_free>>;
using Addresses = std::unique_ptr<addrinfo, OpensslFree<freeaddrinfo>>;

constexpr unsigned char kHttp2[] = {2, 'h', '2'};

// A TCP connection that never blocks for longer than what is left of the time.
class Line {
 public:
  Line(const std::string& address, Duration timeout) : end_(Now() + timeout) {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos) return;
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints,
                    &found) != 0) {
      return;
    }
    const Addresses addresses(found);
    socket_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return;
    const bool at_once = connect(socket_, found->ai_addr, found->ai_addrlen) == 0;
    int error = 0;
    socklen_t size = sizeof(error);
    connected_ =
        at_once || (errno == EINPROGRESS && Wait(POLLOUT) &&
                    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
  }
  ~Line() {
    if (socket_ >= 0) close(socket_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  int descriptor() const { return socket_; }
  bool connected() const { return connected_; }

  bool Wait(short events) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Now()).count();
    pollfd wait = {socket_, events, 0};
    return left > 0 && poll(&wait, 1, static_cast<int>(left)) == 1;
  }

 private:
  const TimePoint end_;
  int socket_ = -1;
  bool connected_ = false;
};

enum class Ended { kDone, kClosed, kTimedOut };

// Repeats an operation of OpenSSL until it does not wait for the network any more.
template <typename Step>
Ended Repeat(const Line& line, SSL* tls, Step step) {
  for (;;) {
    ERR_clear_error();
    const int result = step();
    if (result > 0) return Ended::kDone;
    const int error = SSL_get_error(tls, result);
    const bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    if (!waits) return Ended::kClosed;
    if (!line.Wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT)) return Ended::kTimedOut;
  }
}

StatusOr<TlsContext> MakeContext(const Identity* identity) {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return Internal("OpenSSL cannot start TLS: " + OpensslError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  if (identity == nullptr) return context;
  const bool ready = SSL_CTX_use_certificate_chain_file(
                         context.get(), identity->certificate_file().c_str()) == 1 &&
                     SSL_CTX_use_PrivateKey_file(context.get(), identity->key_file().c_str(),
                                                 SSL_FILETYPE_PEM) == 1 &&
                     SSL_CTX_load_verify_locations(
                         context.get(), identity->authority_file().c_str(), nullptr) == 1;
  if (!ready) return Invalid("cannot use the certificate in " + identity->folder);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

// What a failed handshake says.
Status Blame(const std::string& address, const Identity* identity, SSL* tls) {
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  ERR_clear_error();
  const bool text = reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST;
  if (identity == nullptr) return OkStatus();  // it does not speak TLS, and neither do we
  if (text) {
    return Denied("the server at " + address + " speaks plaintext, and this process has the " +
                  "certificate in " + identity->folder +
                  ": give the server one too (--identity), or leave it out here");
  }
  const long verdict = SSL_get_verify_result(tls);
  if (verdict == X509_V_OK) return OkStatus();
  return Denied(absl::StrFormat(
      "the certificate of the server at %s does not count (%s): compare %s with the server's, and "
      "the clocks",
      address, X509_verify_cert_error_string(verdict), identity->authority_file()));
}

// The server's certificate is good. Whom it names, and whether the server takes ours: it tells only
// by going on or not.
Status LookAtServer(const std::string& address, const Identity& identity, const Line& line,
                    SSL* tls) {
  X509* const certificate = SSL_get0_peer_certificate(tls);
  RW_ASSIGN_OR_RETURN(const std::string pem, ToPem(certificate));
  const std::string what = "the certificate of the server at " + address;
  RW_ASSIGN_OR_RETURN(const IdentityName name, NameInCertificate(what, pem));
  RW_RETURN_IF_ERROR(Annotate(MayMeet(identity.name, name), "the server at " + address));
  RW_RETURN_IF_ERROR(Annotate(IsMeant(name, IdentityRole::kServer, kAnySlot), address));
  char byte = 0;
  if (Repeat(line, tls, [&] { return SSL_read(tls, &byte, 1); }) != Ended::kClosed) {
    return OkStatus();
  }
  ERR_clear_error();
  return Denied(absl::StrFormat(
      "the server at %s does not take the certificate %s in %s: compare %s with the server's, and "
      "the clocks",
      address, ToUri(identity.name), identity.folder, identity.authority_file()));
}

}  // namespace

Status ExplainConnection(const std::string& address, const Identity* identity, Duration timeout) {
  if (identity != nullptr) {
    RW_RETURN_IF_ERROR(ReadIdentity(identity->folder, std::time(nullptr)).status());
  }
  const Line line(address, timeout);
  if (!line.connected()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const TlsContext context, MakeContext(identity));
  const TlsConnection tls(SSL_new(context.get()));
  if (tls == nullptr || SSL_set_fd(tls.get(), line.descriptor()) != 1 ||
      SSL_set_tlsext_host_name(tls.get(), kTlsHostName) != 1) {
    return Internal("OpenSSL cannot start TLS: " + OpensslError());
  }
  const Ended ended = Repeat(line, tls.get(), [&] { return SSL_connect(tls.get()); });
  if (ended == Ended::kTimedOut) return OkStatus();
  if (identity == nullptr && SSL_get0_peer_certificate(tls.get()) != nullptr) {
    ERR_clear_error();
    return Denied("the server at " + address +
                  " speaks TLS: give this process a certificate of its authority (--identity, "
                  "RINGWOOD_IDENTITY)");
  }
  if (ended == Ended::kClosed) return Blame(address, identity, tls.get());
  return LookAtServer(address, *identity, line, tls.get());
}

}  // namespace ringwood
