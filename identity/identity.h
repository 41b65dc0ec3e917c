// A process's identity: a folder with the authority's certificate, its own, and its key. What is
// read there is checked before it is used, and errors name file, field and remedy.
#pragma once

#include <string>

#include "base/status.h"
#include "identity/authority.h"
#include "identity/name.h"
#include "identity/private_file.h"

namespace ringwood {

inline constexpr char kAuthorityFile[] = "ca.pem";
inline constexpr char kCertificateFile[] = "cert.pem";
inline constexpr char kKeyFile[] = "key.pem";

struct PemFolder {
  std::string folder;

  std::string authority_file() const { return folder + "/" + kAuthorityFile; }
  std::string certificate_file() const { return folder + "/" + kCertificateFile; }
  std::string key_file() const { return folder + "/" + kKeyFile; }
};

struct Identity : PemFolder {
  IdentityName name;
  Validity validity;  // of the certificate
};

// What is needed to speak with a server of somebody else's, which is known by the name of its host:
// the authorities that it may be of, and a certificate where it asks for one, of any authority and
// with any name.
struct HostTrust : PemFolder {
  bool has_certificate = false;  // and its key
};

// NotFound: a file is missing. Denied: the key can be read by others, the certificate is not valid
// at `now` (Unix time), or another authority issued it. Invalid: no PEM, a key of another
// certificate, no name of ours in it.
StatusOr<Identity> ReadIdentity(const std::string& folder, int64_t now);

// As above, but for what a HostTrust is free to be. `what`: whose server, for errors.
StatusOr<HostTrust> ReadHostTrust(const std::string& folder, const std::string& what, int64_t now);

// Makes the folder (0700) where it is not there, and writes the three files (0600) so that a reader
// sees the old or the new one. Refused: the folder is another user's or open to others.
Status WriteIdentity(const std::string& folder, const std::string& authority, const Leaf& leaf);
// The certificate alone, where its key stays.
Status ReplaceCertificate(const std::string& folder, const std::string& certificate);

// The whole of a small regular file; with `secret` one that only its owner can read.
StatusOr<std::string> ReadPemFile(const std::string& path, bool secret);

// The name in a certificate (PEM). Invalid: none, or several.
StatusOr<IdentityName> NameInCertificate(const std::string& what, const std::string& pem);

// Whether `authority` issued `certificate` (both PEM) and it counts at `now`; `what` and `by` name
// them in errors.
Status CheckIssued(const std::string& what, const std::string& certificate, const std::string& by,
                   const std::string& authority, int64_t now);

}  // namespace ringwood
