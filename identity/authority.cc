#include "identity/authority.h"

#include <openssl/ec.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "identity/openssl.h"

namespace ringwood {
namespace {

constexpr int kSerialBytes = 16;
constexpr long kVersion3 = 2;

struct Extension {
  int id;
  std::string value;
};

const std::vector<Extension> kOfAuthority = {
    {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
    {NID_key_usage, "critical,keyCertSign,cRLSign"},
    {NID_subject_key_identifier, "hash"},
};

std::vector<Extension> OfLeaf(const IdentityName& name) {
  return {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth,clientAuth"},
      {NID_subject_alt_name, "URI:" + ToUri(name) + ",DNS:" + kTlsHostName},
      {NID_authority_key_identifier, "keyid:always"},
  };
}

StatusOr<OpensslKey> NewKey() {
  OpensslKey key(EVP_EC_gen("P-256"));
  if (key != nullptr) return key;
  return Internal("OpenSSL cannot make a key: " + OpensslError());
}

Status SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
    return Internal("OpenSSL has no random numbers: " + OpensslError());
  }
  bytes[0] &= 0x7f;  // positive
  const std::unique_ptr<BIGNUM, OpensslFree<BN_free>> number(
      BN_bin2bn(bytes, sizeof(bytes), nullptr));
  if (BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr) {
    return OkStatus();
  }
  return Internal("OpenSSL cannot write a serial number: " + OpensslError());
}

Status AddExtensions(X509* certificate, X509* issuer, const std::vector<Extension>& extensions) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  for (const Extension& each : extensions) {
    const std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION_free>> extension(
        X509V3_EXT_nconf_nid(nullptr, &context, each.id, each.value.c_str()));
    if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
      return Internal("OpenSSL cannot write a certificate: " + OpensslError());
    }
  }
  return OkStatus();
}

// The subject is for people who look at the certificate; what counts is the URI.
Status SetSubject(X509* certificate, const std::string& text) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const std::string common = text.substr(0, ub_common_name);
  if (X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common.data()),
                                 static_cast<int>(common.size()), -1, 0) == 1) {
    return OkStatus();
  }
  (void)OpensslError();
  return Invalid("a certificate cannot have the subject \"" + common + "\"");
}

// Null `issuer`: signed by itself.
StatusOr<OpensslCertificate> NewCertificate(const std::string& subject, EVP_PKEY* key, X509* issuer,
                                            EVP_PKEY* issuer_key, const Validity& validity,
                                            const std::vector<Extension>& extensions) {
  OpensslCertificate certificate(X509_new());
  X509* const made = certificate.get();
  if (made == nullptr || X509_set_version(made, kVersion3) != 1 ||
      X509_set_pubkey(made, key) != 1) {
    return Internal("OpenSSL cannot make a certificate: " + OpensslError());
  }
  RW_RETURN_IF_ERROR(SetSerial(made));
  RW_RETURN_IF_ERROR(SetValidity(made, validity));
  RW_RETURN_IF_ERROR(SetSubject(made, subject));
  X509* const by = issuer == nullptr ? made : issuer;
  if (X509_set_issuer_name(made, X509_get_subject_name(by)) != 1) {
    return Internal("OpenSSL cannot name an issuer: " + OpensslError());
  }
  RW_RETURN_IF_ERROR(AddExtensions(made, by, extensions));
  if (X509_sign(made, issuer_key, EVP_sha256()) == 0) {
    return Internal("OpenSSL cannot sign: " + OpensslError());
  }
  return certificate;
}

}  // namespace

struct Authority::Parts {
  OpensslCertificate certificate;
  OpensslKey key;
};

StatusOr<Authority> Authority::Make(const std::string& name, const Validity& validity) {
  auto parts = std::make_shared<Parts>();
  RW_ASSIGN_OR_RETURN(parts->key, NewKey());
  RW_ASSIGN_OR_RETURN(parts->certificate, NewCertificate(name, parts->key.get(), nullptr,
                                                         parts->key.get(), validity, kOfAuthority));
  Authority authority;
  RW_ASSIGN_OR_RETURN(authority.certificate_, ToPem(parts->certificate.get()));
  authority.parts_ = std::move(parts);
  return authority;
}

StatusOr<Authority> Authority::Read(const std::string& certificate, const std::string& key) {
  auto parts = std::make_shared<Parts>();
  RW_ASSIGN_OR_RETURN(parts->certificate,
                      CertificateFromPem("the authority's certificate", certificate));
  RW_ASSIGN_OR_RETURN(parts->key, KeyFromPem("the authority's key", key));
  if (X509_check_ca(parts->certificate.get()) != 1) {
    return Invalid("the certificate is not an authority's: it may not issue others");
  }
  if (X509_check_private_key(parts->certificate.get(), parts->key.get()) != 1) {
    (void)OpensslError();
    return Invalid("the authority's key does not belong to its certificate");
  }
  Authority authority;
  RW_ASSIGN_OR_RETURN(authority.certificate_, ToPem(parts->certificate.get()));
  authority.parts_ = std::move(parts);
  return authority;
}

std::string Authority::key() const {
  StatusOr<std::string> pem = ToPem(parts_->key.get());
  return pem.ok() ? *std::move(pem) : "";
}

StatusOr<Leaf> Authority::Issue(const IdentityName& name, const Validity& validity) const {
  RW_ASSIGN_OR_RETURN(const OpensslKey key, NewKey());
  Leaf leaf;
  RW_ASSIGN_OR_RETURN(leaf.key, ToPem(key.get()));
  RW_ASSIGN_OR_RETURN(leaf.certificate, Renew(name, leaf.key, validity));
  return leaf;
}

StatusOr<std::string> Authority::Renew(const IdentityName& name, const std::string& key,
                                       const Validity& validity) const {
  RW_RETURN_IF_ERROR(CheckIdentityName(name));
  const Validity own = ValidityOf(parts_->certificate.get());
  const Validity cut = {std::max(validity.from, own.from), std::min(validity.until, own.until)};
  RW_ASSIGN_OR_RETURN(const OpensslKey subject_key, KeyFromPem("the key", key));
  const std::string subject = std::string(ToString(name.role)) + " " +
                              (name.slot == kAnySlot ? "any" : std::to_string(name.slot)) + " of " +
                              name.job;
  RW_ASSIGN_OR_RETURN(const OpensslCertificate certificate,
                      NewCertificate(subject, subject_key.get(), parts_->certificate.get(),
                                     parts_->key.get(), cut, OfLeaf(name)));
  return ToPem(certificate.get());
}

}  // namespace ringwood
