// A certificate authority: issues the certificates of a job's processes. ECDSA P-256, SHA-256.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "identity/name.h"

namespace ringwood {

// Both PEM. The key is a secret.
struct Leaf {
  std::string certificate;
  std::string key;
};

// Immutable, so any thread may use it.
class Authority {
 public:
  // A new key and a certificate of its own. `name` tells authorities from each other in messages.
  static StatusOr<Authority> Make(const std::string& name, const Validity& validity);
  // Invalid: not PEM, no authority, or the key belongs to another certificate.
  static StatusOr<Authority> Read(const std::string& certificate, const std::string& key);

  const std::string& certificate() const { return certificate_; }  // PEM; public
  std::string key() const;                                         // PEM; a secret

  // A new key with its certificate. It does not outlast the authority's own.
  StatusOr<Leaf> Issue(const IdentityName& name, const Validity& validity) const;
  // A certificate for a key that was issued before: only one file has to change where it is used.
  StatusOr<std::string> Renew(const IdentityName& name, const std::string& key,
                              const Validity& validity) const;

 private:
  struct Parts;
  Authority() = default;
  std::shared_ptr<const Parts> parts_;
  std::string certificate_;
};

}  // namespace ringwood
