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
#include "base/net/endpoint.h"
#include "identity/openssl.h"

namespace ringwood {
namespace {

using TlsContext = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using TlsConnection = std::unique_ptr<SSL, OpensslFree<SSL_free>>;
using Addresses = std::unique_ptr<addrinfo, OpensslFree<freeaddrinfo>>;

constexpr unsigned char kHttp2[] = {2, 'h', '2'};
// What a client says first, and an empty frame of settings: a server that lets it in answers.
constexpr char kFirstWords[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";

// A TCP connection that never blocks for longer than what is left of the time.
class Line {
 public:
  Line(const std::string& address, Duration timeout) : end_(Now() + timeout) {
    const auto endpoint = ParseEndpoint(address);
    if (!endpoint.ok()) return;
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(endpoint->host.c_str(), std::to_string(endpoint->port).c_str(), &hints,
                    &found) != 0) {
      return;
    }
    const Addresses addresses(found);
    for (const addrinfo* one = found; one != nullptr && !connected_; one = one->ai_next) {
      Connect(*one);
    }
  }
  ~Line() { Close(); }
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
  // A name may have addresses of both families, and the server listen at one of them.
  void Connect(const addrinfo& address) {
    Close();
    socket_ = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return;
    const bool at_once = connect(socket_, address.ai_addr, address.ai_addrlen) == 0;
    int error = 0;
    socklen_t size = sizeof(error);
    connected_ =
        at_once || (errno == EINPROGRESS && Wait(POLLOUT) &&
                    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
  }
  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

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

// `shows`: the certificate too. Null: whatever the server has is taken.
StatusOr<TlsContext> MakeContext(const PemFolder* files, bool shows) {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return Internal("OpenSSL cannot start TLS: " + OpensslError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  if (files == nullptr) return context;
  const bool ready =
      (!shows ||
       (SSL_CTX_use_certificate_chain_file(context.get(), files->certificate_file().c_str()) == 1 &&
        SSL_CTX_use_PrivateKey_file(context.get(), files->key_file().c_str(), SSL_FILETYPE_PEM) ==
            1)) &&
      SSL_CTX_load_verify_locations(context.get(), files->authority_file().c_str(), nullptr) == 1;
  if (!ready) return Invalid("cannot use the certificates in " + files->folder);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

// What a failed handshake says.
Status Blame(const std::string& address, const Identity* identity, SSL* tls) {
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  ERR_clear_error();
  if (identity == nullptr) return OkStatus();  // it does not speak TLS, and neither do we
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
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

// The certificate that the server shows has to name this host, or this address.
bool ExpectHost(SSL* tls, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host.c_str()) == 1) return true;
  ERR_clear_error();
  return SSL_set1_host(tls, host.c_str()) == 1 && SSL_set_tlsext_host_name(tls, host.c_str()) == 1;
}

bool AnswersPlaintext(const std::string& address, Duration timeout) {
  const Line line(address, timeout);
  char byte = 0;
  return line.connected() &&
         send(line.descriptor(), kFirstWords, sizeof kFirstWords, MSG_NOSIGNAL) > 0 &&
         line.Wait(POLLIN) && recv(line.descriptor(), &byte, 1, 0) == 1;
}

// Somebody else's server closed the connection, in the handshake or later. Without a word so does
// one that stands in front of another server that is down.
Status BlameHost(const std::string& server, const HostTrust& trust, SSL* tls, bool plaintext) {
  const unsigned long code = ERR_peek_error();
  const bool silent = code == 0 || ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  const char* const library = ERR_reason_error_string(code);
  const std::string said = library == nullptr ? "it closes the connection" : library;
  ERR_clear_error();
  if (const long verdict = SSL_get_verify_result(tls); verdict != X509_V_OK) {
    return Denied(absl::StrFormat(
        "the certificate of %s does not count (%s): %s has to have the authority that issued it, "
        "it has to name the host as it is called here, and the clocks have to agree",
        server, X509_verify_cert_error_string(verdict), trust.authority_file()));
  }
  if (SSL_get0_peer_certificate(tls) == nullptr) {
    if (plaintext) {
      return Denied(server +
                    " speaks plaintext, and this process was told to speak TLS: give that server "
                    "certificates, or leave out TLS here");
    }
    return silent ? OkStatus() : Denied("there is no TLS with " + server + ": " + said);
  }
  if (!trust.has_certificate) {
    return Denied(absl::StrFormat(
        "%s asks for a client's certificate (%s): put one that it takes in %s, as %s and %s",
        server, said, trust.folder, kCertificateFile, kKeyFile));
  }
  return Denied(absl::StrFormat(
      "%s does not take the certificate %s (%s): an authority that it trusts has to have issued "
      "that, for clients",
      server, trust.certificate_file(), said));
}

}  // namespace

Status ExplainHost(const std::string& what, const std::string& address, const HostTrust* trust,
                   Duration timeout) {
  const std::string server = what + " at " + address;
  if (trust != nullptr) {
    RW_RETURN_IF_ERROR(ReadHostTrust(trust->folder, what, std::time(nullptr)).status());
  }
  const Line line(address, timeout);
  if (!line.connected()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const TlsContext context,
                      MakeContext(trust, trust != nullptr && trust->has_certificate));
  const TlsConnection tls(SSL_new(context.get()));
  if (tls == nullptr || SSL_set_fd(tls.get(), line.descriptor()) != 1 ||
      (trust != nullptr && !ExpectHost(tls.get(), HostOf(address)))) {
    return Internal("OpenSSL cannot start TLS: " + OpensslError());
  }
  Ended ended = Repeat(line, tls.get(), [&] { return SSL_connect(tls.get()); });
  if (trust == nullptr) {
    ERR_clear_error();
    if (SSL_get0_peer_certificate(tls.get()) == nullptr) return OkStatus();
    return Denied(server + " speaks TLS, and this process was told to speak plaintext");
  }
  char byte = 0;
  if (ended == Ended::kDone) {
    ended = Repeat(line, tls.get(),
                   [&] { return SSL_write(tls.get(), kFirstWords, sizeof kFirstWords); });
  }
  if (ended == Ended::kDone) {
    ended = Repeat(line, tls.get(), [&] { return SSL_read(tls.get(), &byte, 1); });
  }
  if (ended != Ended::kClosed) return OkStatus();
  const bool plaintext =
      SSL_get0_peer_certificate(tls.get()) == nullptr && AnswersPlaintext(address, timeout);
  return BlameHost(server, *trust, tls.get(), plaintext);
}

Status ExplainConnection(const std::string& address, const Identity* identity, Duration timeout) {
  if (identity != nullptr) {
    RW_RETURN_IF_ERROR(ReadIdentity(identity->folder, std::time(nullptr)).status());
  }
  const Line line(address, timeout);
  if (!line.connected()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const TlsContext context, MakeContext(identity, true));
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
