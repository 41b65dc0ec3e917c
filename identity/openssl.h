// OpenSSL's objects as values: who owns them, and how PEM becomes one of them.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "identity/name.h"

namespace ringwood {

template <auto kFree>
struct OpensslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using OpensslKey = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using OpensslCertificate = std::unique_ptr<X509, OpensslFree<X509_free>>;
using OpensslBuffer = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;

// What the library says went wrong last, for messages; clears it.
std::string OpensslError();

// The first certificate or key in the text; `what` names it in errors.
StatusOr<OpensslCertificate> CertificateFromPem(const std::string& what, const std::string& pem);
// All of them, at least one: a certificate is followed by those of the authorities between it and
// the one that is trusted.
StatusOr<std::vector<OpensslCertificate>> CertificatesFromPem(const std::string& what,
                                                              const std::string& pem);
StatusOr<OpensslKey> KeyFromPem(const std::string& what, const std::string& pem);
StatusOr<std::string> ToPem(X509* certificate);
StatusOr<std::string> ToPem(EVP_PKEY* key);

Validity ValidityOf(const X509* certificate);

// Times beyond year 9999 cannot be written.
Status SetValidity(X509* certificate, const Validity& validity);

}  // namespace ringwood
