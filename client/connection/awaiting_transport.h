// A transport that knows which peers a call still waits for, to send to it or to take what it sent:
// the error of a call that does not end in time names them. On the net loop.
#pragma once

#include <memory>
#include <set>
#include <utility>

#include "transport/transport.h"

namespace ringwood {

class AwaitingTransport : public Transport, public std::enable_shared_from_this<AwaitingTransport> {
 public:
  explicit AwaitingTransport(Transport* through) : through_(through) {}

  std::set<int> peers() const { return {peers_.begin(), peers_.end()}; }

  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            SendDone done) override {
    const auto waits = peers_.insert(peer);
    through_->Send(peer, name, content, payload,
                   [self = shared_from_this(), waits, done = std::move(done)](Status status) {
                     self->peers_.erase(waits);
                     done(std::move(status));
                   });
  }
  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, ReceiveDone done) override {
    const auto waits = peers_.insert(peer);
    through_->Receive(peer, name, content, buffer,
                      [self = shared_from_this(), waits, done = std::move(done)](
                          StatusOr<std::span<std::byte>> payload, const Frame& frame) {
                        self->peers_.erase(waits);
                        done(std::move(payload), frame);
                      });
  }
  void Withdraw(Lane lane, uint64_t round) override { through_->Withdraw(lane, round); }
  void Close(const Status& reason) override { through_->Close(reason); }
  TransportCounters Counters() const override { return through_->Counters(); }

 private:
  Transport* const through_;
  std::multiset<int> peers_;
};

}  // namespace ringwood
