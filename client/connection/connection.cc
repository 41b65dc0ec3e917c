#include "client/connection/connection.h"

#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "client/exchange/exchange.h"

namespace ringwood {

Connection::Connection(Parts parts, uint64_t checkpoint_bytes)
    : incarnation_(Unpredictable()),
      make_fabric_(std::move(parts.make_fabric)),
      accelerator_(std::move(parts.accelerator)),
      compute_(std::make_unique<Loop>("rw-compute")),
      net_(std::make_unique<Loop>("rw-net")),
      store_(std::move(parts.store)),
      updates_(std::move(parts.updates)),
      tally_(checkpoint_bytes),
      control_(std::move(parts.control)) {}

Connection::~Connection() {
  control_.reset();
  if (store_) store_->Cancel();
  if (updates_) updates_->Cancel();
  compute_.reset();
  net_.reset();
}

void Connection::Drain() {
  // Compute first: what it posts to net before it is drained finds the transport closed.
  const auto nothing = [] { return OkStatus(); };
  for (Loop* loop : {compute_.get(), net_.get()}) {
    const Status drained = loop->Call(nothing, Seconds(kLongestWaitSeconds));
    RW_CHECK(drained.ok());
  }
}

}  // namespace ringwood
