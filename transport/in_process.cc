#include "transport/in_process.h"

#include <deque>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "transport/inbox.h"
#include "transport/node_fabric.h"

namespace ringwood {

// What Fabric and Transport of one node share. Touched only on loop().
class InProcessEnd : public std::enable_shared_from_this<InProcessEnd> {
 public:
  using Copy = std::shared_ptr<Buffer<std::byte>>;

  InProcessEnd(InProcessNetwork* network, Loop* loop, uint64_t address)
      : network_(network), loop_(loop), address_(address) {}

  Loop* loop() const { return loop_; }
  uint64_t address() const { return address_; }

  void Connect(const EpochName& name, const std::vector<Peer>& peers, const FabricLimits& limits) {
    self_ = name.self;
    inbox_ = std::make_unique<Inbox>(name, peers, limits);
    for (const Peer& peer : peers) {
      if (peer.node != name.self) peers_[peer.node] = std::stoull(peer.address);
    }
    for (auto& [frame, payload] : before_) inbox_->Arrive(frame, payload->span());
    before_.clear();
  }

  void Deliver(const Frame& frame, const Copy& payload) {
    if (closed_) return;
    if (inbox_ == nullptr) {
      before_.emplace_back(frame, payload);
      return;
    }
    inbox_->Arrive(frame, payload->span());
    Schedule();
  }

  void PeerClosed(int node, const Status& told) {
    if (closed_ || inbox_ == nullptr) return;
    inbox_->Fail(node,
                 told.ok() ? Unavailable(inbox_->Label(node) + " closed its connection") : told);
    Schedule();
  }

  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            Transport::SendDone done) {
    Status status = inbox_->reason(peer);
    if (status.ok() && !inbox_->IsPeer(peer)) {
      status = Invalid(absl::StrFormat("node %d is no peer of this epoch", peer));
    }
    if (status.ok()) {
      auto copy = std::make_shared<Buffer<std::byte>>(payload.bytes.size());
      std::copy(payload.bytes.begin(), payload.bytes.end(), copy->data());
      const Frame frame = inbox_->MakeFrame(name, content, payload);
      const bool posted = network_->PostTo(
          peers_[peer], [frame, copy](InProcessEnd& end) { end.Deliver(frame, copy); },
          &Loop::Post);
      if (!posted) {
        status = Unavailable(inbox_->Label(peer) + " was closed, or its loop's mailbox is full");
      }
      inbox_->CountSent(sizeof(Frame) + payload.bytes.size());
    }
    if (!status.ok()) status = Annotate(status, "send " + ToString(name));
    inbox_->Answer([done = std::move(done), status] { done(status); });
    Schedule();
  }

  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, Transport::ReceiveDone done) {
    inbox_->Post(peer, name, content, buffer, std::move(done));
    Schedule();
  }

  void Withdraw(Lane lane, uint64_t round) {
    inbox_->Withdraw(lane, round);
    Schedule();
  }

  void Close(const Status& reason) {
    if (closed_) return;
    closed_ = true;
    network_->Remove(address_);
    if (inbox_ == nullptr) return;
    for (const auto& [node, address] : peers_) {
      const Status told = TellsPeers(reason) ? Status(reason.code(), Farewell(reason)) : OkStatus();
      network_->PostTo(
          address, [self = self_, told](InProcessEnd& end) { end.PeerClosed(self, told); },
          &Loop::PostReserved);  // one of each peer, which waits for it
    }
    inbox_->Close(reason);
    inbox_->Abandon();
    while (inbox_->RunAnswers()) {
    }
  }

  TransportCounters Counters() const { return inbox_->counters(); }

 private:
  // Answers run from the loop, never inside the call that caused them.
  void Schedule() {
    if (scheduled_ || !inbox_->HasAnswers()) return;
    scheduled_ = loop_->PostReserved([end = shared_from_this()] {
      end->scheduled_ = false;
      end->inbox_->RunAnswers();
      end->Schedule();
    });
  }

  InProcessNetwork* const network_;
  Loop* const loop_;
  const uint64_t address_;
  int self_ = 0;
  bool closed_ = false;
  bool scheduled_ = false;
  std::unique_ptr<Inbox> inbox_;               // from Connect on
  std::map<int, uint64_t> peers_;              // node → address
  std::deque<std::pair<Frame, Copy>> before_;  // arrived before Connect
};

class InProcessFabric : public Fabric {
 public:
  explicit InProcessFabric(std::shared_ptr<InProcessEnd> end) : end_(std::move(end)) {}
  ~InProcessFabric() override {
    if (!connected_) end_->Close(Aborted("the fabric was destroyed"));
  }

  std::string Address() const override { return std::to_string(end_->address()); }
  std::string Wire() const override { return "memory of this process"; }

  StatusOr<std::unique_ptr<Transport>> Connect(const EpochName& name,
                                               const std::vector<Peer>& peers,
                                               const FabricLimits& limits) override {
    RW_CHECK(!connected_ && end_->loop()->OnThread());
    connected_ = true;
    end_->Connect(name, peers, limits);
    return std::unique_ptr<Transport>(std::make_unique<NodeTransport<InProcessEnd>>(end_));
  }

 private:
  const std::shared_ptr<InProcessEnd> end_;
  bool connected_ = false;
};

std::unique_ptr<Fabric> InProcessNetwork::MakeFabric(Loop* loop) {
  absl::MutexLock lock(&mutex_);
  const uint64_t address = next_++;
  auto end = std::make_shared<InProcessEnd>(this, loop, address);
  ends_[address] = end;
  return std::make_unique<InProcessFabric>(std::move(end));
}

// Under the lock: after Remove the end's loop may be gone.
bool InProcessNetwork::PostTo(uint64_t address, std::function<void(InProcessEnd&)> task,
                              bool (Loop::*post)(Loop::Task)) {
  absl::MutexLock lock(&mutex_);
  const auto found = ends_.find(address);
  const std::shared_ptr<InProcessEnd> end = found == ends_.end() ? nullptr : found->second.lock();
  return end != nullptr && (end->loop()->*post)([end, task = std::move(task)] { task(*end); });
}

void InProcessNetwork::Remove(uint64_t address) {
  absl::MutexLock lock(&mutex_);
  ends_.erase(address);
}

}  // namespace ringwood
