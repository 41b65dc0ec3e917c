#include "identity/identity.h"

#include <openssl/x509v3.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/files/whole_file.h"
#include "identity/openssl.h"

namespace ringwood {
namespace {

constexpr size_t kMaxPemFileBytes = 256 << 10;  // a certificate has about 1 KiB

using Names = std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>>;

std::vector<std::string> UrisIn(const X509* certificate) {
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> uris;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

StatusOr<IdentityName> NameIn(const std::string& what, const X509* certificate) {
  const std::vector<std::string> uris = UrisIn(certificate);
  if (uris.size() != 1) {
    return Invalid(absl::StrFormat(
        "%s has %d URIs among its subject alternative names, not the one that says who it is: "
        "issue it with `ringwood ca issue`",
        what, uris.size()));
  }
  auto name = ParseIdentityName(uris[0]);
  if (name.ok()) return name;
  return Annotate(name.status(), what + ", subject alternative name");
}

using Certificates = std::vector<OpensslCertificate>;
using TrustStore = std::unique_ptr<X509_STORE, OpensslFree<X509_STORE_free>>;
using Check = std::unique_ptr<X509_STORE_CTX, OpensslFree<X509_STORE_CTX_free>>;

struct FreeOfStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }  // and not what is in it
};
using Between = std::unique_ptr<STACK_OF(X509), FreeOfStack>;

// A certificate, followed by those of authorities between it and one that is trusted. Signatures,
// use and constraints; validity is compared with the caller's clock.
Status CheckChain(const std::string& what, const Certificates& chain, const std::string& by,
                  const Certificates& authorities, int64_t now) {
  const TrustStore store(X509_STORE_new());
  const Check check(X509_STORE_CTX_new());
  const Between between(sk_X509_new_null());
  bool ready = store != nullptr && check != nullptr && between != nullptr;
  for (const auto& each : authorities) {
    ready = ready && X509_STORE_add_cert(store.get(), each.get()) == 1;
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    ready = ready && sk_X509_push(between.get(), chain[i].get()) > 0;
  }
  ready =
      ready && X509_STORE_CTX_init(check.get(), store.get(), chain[0].get(), between.get()) == 1;
  if (!ready) return Internal("OpenSSL cannot check certificates: " + OpensslError());
  X509_STORE_CTX_set_flags(check.get(), X509_V_FLAG_NO_CHECK_TIME);
  if (X509_verify_cert(check.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(check.get());
    (void)OpensslError();
    return Denied(absl::StrFormat(
        "%s was not issued by the authority in %s (%s): all processes of a job need certificates "
        "of one authority, and its %s",
        what, by, X509_verify_cert_error_string(error), kAuthorityFile));
  }
  STACK_OF(X509)* const found = X509_STORE_CTX_get0_chain(check.get());
  const int length = sk_X509_num(found);
  for (int i = length - 1; i >= 0; --i) {  // the authority first, whose end is everybody's
    const std::string& name = i > 0 && i == length - 1 ? by : what;
    RW_RETURN_IF_ERROR(CheckValidity(name, ValidityOf(sk_X509_value(found, i)), now));
  }
  return OkStatus();
}

Status CheckWithAuthorities(const std::string& what, const Certificates& chain,
                            const std::string& by, const Certificates& authorities, int64_t now) {
  for (const auto& each : authorities) {
    if (X509_check_ca(each.get()) == 1) continue;
    return Invalid(by + " is no authority's certificate: it may not issue others");
  }
  return CheckChain(what, chain, by, authorities, now);
}

struct Pair {
  X509* certificate() const { return chain[0].get(); }

  Certificates chain;
  OpensslKey key;
};

StatusOr<Pair> ReadPair(const PemFolder& files) {
  const std::string file = files.certificate_file(), key_file = files.key_file();
  RW_ASSIGN_OR_RETURN(const std::string pem, ReadPemFile(file, false));
  RW_ASSIGN_OR_RETURN(const std::string key_pem, ReadPemFile(key_file, true));
  Pair pair;
  RW_ASSIGN_OR_RETURN(pair.chain, CertificatesFromPem(file, pem));
  RW_ASSIGN_OR_RETURN(pair.key, KeyFromPem(key_file, key_pem));
  if (X509_check_private_key(pair.certificate(), pair.key.get()) == 1) return pair;
  (void)OpensslError();
  return Invalid(key_file + " is not the key of the certificate " + file +
                 ": the two were issued apart; issue them together again");
}

bool IsThere(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

StatusOr<IdentityName> NameInCertificate(const std::string& what, const std::string& pem) {
  RW_ASSIGN_OR_RETURN(const OpensslCertificate certificate, CertificateFromPem(what, pem));
  return NameIn(what, certificate.get());
}

Status CheckIssued(const std::string& what, const std::string& certificate, const std::string& by,
                   const std::string& authority, int64_t now) {
  RW_ASSIGN_OR_RETURN(const Certificates chain, CertificatesFromPem(what, certificate));
  RW_ASSIGN_OR_RETURN(const Certificates issuers, CertificatesFromPem(by, authority));
  return CheckWithAuthorities(what, chain, by, issuers, now);
}

StatusOr<std::string> ReadPemFile(const std::string& path, bool secret) {
  auto file = ReadSmallFile(path, kMaxPemFileBytes + 1);
  if (file.status().code() == StatusCode::kNotFound) {
    return NotFound(Message(file.status()) + "; `ringwood ca issue` makes it");
  }
  RW_RETURN_IF_ERROR(file.status());
  if (file->content.size() > kMaxPemFileBytes) return Invalid(path + " is no small file");
  if (secret) RW_RETURN_IF_ERROR(CheckKeyIsPrivate(path, *file));
  return std::move(file->content);
}

Status WriteIdentity(const std::string& folder, const std::string& authority, const Leaf& leaf) {
  RW_RETURN_IF_ERROR(MakePrivateFolder(folder));
  const PemFolder files{folder};
  RW_RETURN_IF_ERROR(WriteWhole(files.authority_file(), authority, 0600));
  RW_RETURN_IF_ERROR(WriteWhole(files.key_file(), leaf.key, 0600));
  return ReplaceCertificate(folder, leaf.certificate);
}

Status ReplaceCertificate(const std::string& folder, const std::string& certificate) {
  const PemFolder files{folder};
  return WriteWhole(files.certificate_file(), certificate, 0600);
}

StatusOr<Identity> ReadIdentity(const std::string& folder, int64_t now) {
  Identity identity;
  identity.folder = folder;
  const std::string authority_file = identity.authority_file();
  const std::string file = identity.certificate_file();
  RW_ASSIGN_OR_RETURN(const std::string authority_pem, ReadPemFile(authority_file, false));
  RW_ASSIGN_OR_RETURN(const auto authorities, CertificatesFromPem(authority_file, authority_pem));
  RW_ASSIGN_OR_RETURN(const Pair pair, ReadPair(identity));
  RW_RETURN_IF_ERROR(CheckWithAuthorities(file, pair.chain, authority_file, authorities, now));
  RW_ASSIGN_OR_RETURN(identity.name, NameIn(file, pair.certificate()));
  identity.validity = ValidityOf(pair.certificate());
  return identity;
}

StatusOr<HostTrust> ReadHostTrust(const std::string& folder, const std::string& what, int64_t now) {
  HostTrust trust;
  trust.folder = folder;
  if (!IsThere(trust.authority_file())) {
    return NotFound(absl::StrFormat(
        "there is no %s: copy there the certificate of the authority that issued %s's",
        trust.authority_file(), what));
  }
  RW_ASSIGN_OR_RETURN(const std::string authority, ReadPemFile(trust.authority_file(), false));
  RW_RETURN_IF_ERROR(CertificatesFromPem(trust.authority_file(), authority).status());
  const bool certificate = IsThere(trust.certificate_file());
  if (certificate != IsThere(trust.key_file())) {
    return NotFound(absl::StrFormat(
        "%s has one of %s and %s: a certificate that is shown to %s needs both, and without one "
        "neither may be there",
        folder, kCertificateFile, kKeyFile, what));
  }
  if (!certificate) return trust;
  RW_ASSIGN_OR_RETURN(const Pair pair, ReadPair(trust));
  RW_RETURN_IF_ERROR(CheckValidity(trust.certificate_file(), ValidityOf(pair.certificate()), now));
  trust.has_certificate = true;
  return trust;
}

}  // namespace ringwood
