// Why a connection to a server fails, as a sentence: gRPC tells only that it was closed.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "identity/identity.h"

namespace ringwood {

// Makes one TLS connection to "HOST:PORT" as a client. Denied: what is wrong between this process
// and the server, with the remedy: it speaks plaintext or TLS, has a certificate that does not
// count or of someone else, or does not take ours. OK: nothing is, or nobody answers at all.
// Without `identity`: this process speaks plaintext. Blocks, at most `timeout`.
Status ExplainConnection(const std::string& address, const Identity* identity, Duration timeout);

// The same for somebody else's server, `what` (etcd, say): without `trust` this process speaks
// plaintext; else the certificate there has to name the host in `address`.
Status ExplainHost(const std::string& what, const std::string& address, const HostTrust* trust,
                   Duration timeout);

}  // namespace ringwood
