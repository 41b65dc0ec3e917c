// The check of a server's options: before anything is opened they are refused if they do not fit
// each other, or would let strangers in. Any thread. Errors name the flag and say how to fix it.
#pragma once

#include <string>

#include "base/status.h"
#include "server/server_options.h"

namespace ringwood {

// Invalid: numbers out of bounds, options that exclude each other. Denied: etcd in plaintext on a
// network that is not declared private, a deployment without a secret. Pure, but for the
// certificates of etcd_tls, which are read.
Status CheckServerOptions(const ServerOptions& options);

// Where the control plane may listen, as ChooseListen decides (calls/listen.h).
StatusOr<std::string> ChooseControl(const ServerOptions& options);

// The same for the status page: off loopback as the control plane itself, with a certificate of its
// own, and never without a token.
StatusOr<std::string> ChooseHttp(const ServerOptions& options);

}  // namespace ringwood
