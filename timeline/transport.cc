#include "timeline/transport.h"

#include <utility>

#include "base/clock.h"
#include "timeline/event_observer.h"

namespace ringwood {
namespace {

bool IsOfAGroup(const MessageName& name) {
  return name.lane == Lane::kDense || name.lane == Lane::kSparse;
}

class NotingTransport : public Transport {
 public:
  NotingTransport(std::unique_ptr<Transport> inner, ChunkSink* sink)
      : inner_(std::move(inner)), sink_(sink) {}

  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            SendDone done) override {
    if (!IsOfAGroup(name)) {
      return inner_->Send(peer, name, content, payload, std::move(done));
    }
    const int64_t begin = NanosecondsOf(Now());
    inner_->Send(peer, name, content, payload,
                 [sink = sink_, peer, name, bytes = payload.bytes.size(), begin,
                  done = std::move(done)](Status status) {
                   if (status.ok()) sink->Sent(peer, name, bytes, begin, NanosecondsOf(Now()));
                   done(status);
                 });
  }

  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, ReceiveDone done) override {
    if (!IsOfAGroup(name)) {
      return inner_->Receive(peer, name, content, buffer, std::move(done));
    }
    inner_->Receive(peer, name, content, buffer,
                    [sink = sink_, peer, name, done = std::move(done)](
                        StatusOr<std::span<std::byte>> payload, const Frame& frame) {
                      if (payload.ok()) sink->Received(peer, name, NanosecondsOf(Now()));
                      done(std::move(payload), frame);
                    });
  }

  void Withdraw(Lane lane, uint64_t round) override { inner_->Withdraw(lane, round); }
  void Close(const Status& reason) override { inner_->Close(reason); }
  TransportCounters Counters() const override { return inner_->Counters(); }

 private:
  const std::unique_ptr<Transport> inner_;
  ChunkSink* const sink_;
};

class NotingFabric : public Fabric {
 public:
  NotingFabric(std::unique_ptr<Fabric> inner, ChunkSink* sink)
      : inner_(std::move(inner)), sink_(sink) {}

  std::string Address() const override { return inner_->Address(); }
  std::string Wire() const override { return inner_->Wire(); }
  StatusOr<std::unique_ptr<Transport>> Connect(const EpochName& name,
                                               const std::vector<Peer>& peers,
                                               const FabricLimits& limits) override {
    RW_ASSIGN_OR_RETURN(auto transport, inner_->Connect(name, peers, limits));
    return std::make_unique<NotingTransport>(std::move(transport), sink_);
  }

 private:
  const std::unique_ptr<Fabric> inner_;
  ChunkSink* const sink_;
};

}  // namespace

std::unique_ptr<Fabric> ObserveFabric(std::unique_ptr<Fabric> fabric, ChunkSink* sink) {
  return std::make_unique<NotingFabric>(std::move(fabric), sink);
}

}  // namespace ringwood
