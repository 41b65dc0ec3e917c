// Where etcd is and what of it is ours: "etcd://HOST:PORT,HOST:PORT/PREFIX", or "etcds://…" under
// TLS, as of http and https. One URL names all members and is the same for all servers of a job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "identity/credentials.h"

namespace ringwood {

struct EtcdAddress {
  std::vector<std::string> endpoints;  // "HOST:PORT" of the members; one that answers is enough
  std::string prefix;                  // of this job's keys, without slashes at its ends
  std::shared_ptr<const HostCredentials> credentials;  // null: plaintext

  std::string leader_key() const { return prefix + "/leader"; }
  std::string record_key() const { return prefix + "/epoch"; }
  std::string text() const;  // as it was given
  bool on_loopback() const;  // every endpoint
};

// `tls_folder`: of etcds, what HostCredentials opens; of etcd it is empty. Invalid: what is wrong
// with it, with an example. Errors as HostCredentials::Open.
StatusOr<EtcdAddress> ParseEtcdAddress(const std::string& text, const std::string& tls_folder = "");

}  // namespace ringwood
