// Where etcd is and what of it is ours: "etcd://HOST:PORT,HOST:PORT/PREFIX".
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

struct EtcdAddress {
  std::vector<std::string> endpoints;  // "HOST:PORT" of the members; one that answers is enough
  std::string prefix;                  // of this job's keys, without slashes at its ends

  std::string leader_key() const { return prefix + "/leader"; }
  std::string record_key() const { return prefix + "/epoch"; }
  std::string text() const;  // as it was given
  bool on_loopback() const;  // every endpoint
};

// Invalid: what is wrong with it, with an example.
StatusOr<EtcdAddress> ParseEtcdAddress(const std::string& text);

}  // namespace ringwood
