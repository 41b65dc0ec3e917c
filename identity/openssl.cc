#include "identity/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pemerr.h>

#include <ctime>
#include <utility>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kMaxPemBytes = 1 << 20;

OpensslBuffer Reading(const std::string& text) {
  return OpensslBuffer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

StatusOr<std::string> Written(const OpensslBuffer& buffer, bool done) {
  char* bytes = nullptr;
  const long count = done ? BIO_get_mem_data(buffer.get(), &bytes) : 0;
  if (count <= 0) return Internal("OpenSSL cannot write PEM: " + OpensslError());
  return std::string(bytes, static_cast<size_t>(count));
}

int64_t UnixTimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  return time != nullptr && ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

// An encrypted key has no one to ask for its password.
int NoPassword(char*, int, int, void*) { return -1; }

}  // namespace

std::string OpensslError() {
  const unsigned long code = ERR_peek_last_error();
  char text[256] = "no reason given";
  if (code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return text;
}

StatusOr<OpensslCertificate> CertificateFromPem(const std::string& what, const std::string& pem) {
  RW_ASSIGN_OR_RETURN(auto certificates, CertificatesFromPem(what, pem));
  return std::move(certificates.front());
}

StatusOr<std::vector<OpensslCertificate>> CertificatesFromPem(const std::string& what,
                                                              const std::string& pem) {
  std::vector<OpensslCertificate> certificates;
  const OpensslBuffer buffer = Reading(pem);
  while (pem.size() <= kMaxPemBytes) {
    OpensslCertificate next(PEM_read_bio_X509(buffer.get(), nullptr, NoPassword, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  // So the text ends; anything else is damage, which TLS would stumble over.
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  (void)OpensslError();
  if (ended && !certificates.empty()) return certificates;
  return Invalid(what +
                 (certificates.empty() ? " holds no certificate in PEM"
                                       : " holds a damaged certificate beside good ones") +
                 " (-----BEGIN CERTIFICATE-----)");
}

StatusOr<OpensslKey> KeyFromPem(const std::string& what, const std::string& pem) {
  OpensslKey key;
  if (pem.size() <= kMaxPemBytes) {
    key.reset(PEM_read_bio_PrivateKey(Reading(pem).get(), nullptr, NoPassword, nullptr));
  }
  if (key != nullptr) return key;
  (void)OpensslError();
  return Invalid(what +
                 " holds no private key in PEM without a password (-----BEGIN PRIVATE KEY-----)");
}

StatusOr<std::string> ToPem(X509* certificate) {
  const OpensslBuffer buffer(BIO_new(BIO_s_mem()));
  return Written(buffer, PEM_write_bio_X509(buffer.get(), certificate) == 1);
}

StatusOr<std::string> ToPem(EVP_PKEY* key) {
  const OpensslBuffer buffer(BIO_new(BIO_s_secmem()));
  return Written(buffer, PEM_write_bio_PKCS8PrivateKey(buffer.get(), key, nullptr, nullptr, 0,
                                                       nullptr, nullptr) == 1);
}

Validity ValidityOf(const X509* certificate) {
  return {UnixTimeOf(X509_get0_notBefore(certificate)),
          UnixTimeOf(X509_get0_notAfter(certificate))};
}

Status SetValidity(X509* certificate, const Validity& validity) {
  if (validity.from < validity.until &&
      ASN1_TIME_set(X509_getm_notBefore(certificate), validity.from) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(certificate), validity.until) != nullptr) {
    return OkStatus();
  }
  (void)OpensslError();
  return Invalid(absl::StrFormat("a certificate cannot be valid from %d to %d (Unix time)",
                                 validity.from, validity.until));
}

}  // namespace ringwood
