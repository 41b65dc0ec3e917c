// One node's end of the data plane for one epoch, made before its peers are known: its address
// travels in the join request, and Connect turns it into a Transport when the epoch is activated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "transport/transport.h"

namespace ringwood {

// Which epoch of which job this node takes part in, and as which node.
struct EpochName {
  uint64_t job = 0;
  uint64_t epoch = 0;
  int self = 0;
  // The secret by which connections prove that they belong to this epoch; empty: the job's token.
  std::string key = "";
};

struct FabricLimits {
  // Most bytes kept of one peer's messages that arrived before they were asked for. A peer may run
  // ahead by the chunks in flight of every lane; one that exceeds this ignores that bound.
  uint64_t stash_bytes = 64 << 20;
  // The failure timeout: an awaited peer that stays silent for so long, though it was asked for a
  // sign of life, has failed. 0: peers are not watched.
  double silence_seconds = 0;
  // The same for a peer that was never heard, unless it is on trial: its process or connection is
  // still starting.
  double start_seconds = 60;
  // For transports that connect on demand: the number of peers to which a connection must be
  // possible. Connections to others are made as long as descriptors last.
  size_t needed_peers = 1;
};

class Fabric {
 public:
  virtual ~Fabric() = default;

  // Opaque bytes that tell the peers how to reach this node.
  virtual std::string Address() const = 0;

  // What carries the messages, for logs: "192.168.1.3 eth0, tcp by UCX".
  virtual std::string Wire() const = 0;

  // Once, on the loop's thread. `peers` are all nodes of the epoch; the node itself is skipped.
  // The Transport may outlive the Fabric.
  virtual StatusOr<std::unique_ptr<Transport>> Connect(const EpochName& name,
                                                       const std::vector<Peer>& peers,
                                                       const FabricLimits& limits) = 0;
};

}  // namespace ringwood
