#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/digest.h"
#include "tests/sparse/shuffled_network.h"

namespace ringwood {

class ShuffledNetwork::Node : public Transport {
 public:
  Node(ShuffledNetwork* network, int self) : network_(network), self_(self) {}

  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            SendDone done) override {
    const Key key{self_, peer, name};
    counters_.sent_bytes += payload.bytes.size();
    receivers_.push_back(peer);
    const bool fresh =
        network_->messages_.emplace(key, Message{content, payload.bytes, std::move(done)}).second;
    RW_CHECK(fresh);
    network_->Match(key);
  }

  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, ReceiveDone done) override {
    const Key key{peer, self_, name};
    const bool fresh =
        network_->posted_.emplace(key, Posted{content, buffer.into, std::move(done)}).second;
    RW_CHECK(fresh);
    network_->Match(key);
  }

  void Withdraw(Lane, uint64_t) override {}  // one plan: nobody is left waiting

  void Close(const Status& reason) override {
    std::vector<std::function<void()>> answers;
    std::erase_if(network_->posted_, [&](auto& item) {
      if (item.first.to != self_) return false;
      answers.push_back([done = item.second.done, reason] { done(reason, Frame{}); });
      return true;
    });
    std::erase_if(network_->messages_, [&](auto& item) {
      if (item.first.from != self_) return false;
      answers.push_back([done = item.second.done, reason] { done(reason); });
      return true;
    });
    for (auto& answer : answers) answer();
  }

  TransportCounters Counters() const override { return counters_; }

  TransportCounters counters_;
  std::vector<int> receivers_;

 private:
  ShuffledNetwork* const network_;
  const int self_;
};

ShuffledNetwork::ShuffledNetwork(int nodes, uint64_t seed) : random_(seed) {
  for (int node = 0; node < nodes; ++node) nodes_.push_back(std::make_unique<Node>(this, node));
}

ShuffledNetwork::~ShuffledNetwork() = default;

Transport* ShuffledNetwork::at(int node) { return nodes_[node].get(); }

bool ShuffledNetwork::Quiet() const {
  return messages_.empty() && posted_.empty() && ready_.empty();
}

uint64_t ShuffledNetwork::sent_bytes(int node) const { return nodes_[node]->counters_.sent_bytes; }

uint64_t ShuffledNetwork::received_bytes(int node) const {
  return nodes_[node]->counters_.received_bytes;
}

const std::vector<int>& ShuffledNetwork::receivers(int node) const {
  return nodes_[node]->receivers_;
}

void ShuffledNetwork::Match(const Key& key) {
  if (messages_.contains(key) && posted_.contains(key)) {
    ready_.push_back([this, key] { Deliver(key); });
  }
}

void ShuffledNetwork::Deliver(const Key& key) {
  const auto message = messages_.find(key);
  const auto posted = posted_.find(key);
  if (message == messages_.end() || posted == posted_.end()) return;  // closed meanwhile
  const Message sent = std::move(message->second);
  const Posted wanted = std::move(posted->second);
  messages_.erase(message);
  posted_.erase(posted);
  if (sent.payload.size() > wanted.into.size() || sent.content.type != wanted.content.type ||
      sent.content.codec != wanted.content.codec ||
      (wanted.content.count != 0 && wanted.content.count != sent.content.count)) {
    const Status error = Invalid(absl::StrFormat("node %d sent what node %d does not expect: %s",
                                                 key.from, key.to, ToString(key.name)));
    wanted.done(error, Frame{});
    sent.done(error);
    return;
  }
  if (!sent.payload.empty()) {
    std::memcpy(wanted.into.data(), sent.payload.data(), sent.payload.size());
  }
  nodes_[key.to]->counters_.received_bytes += sent.payload.size();
  Frame frame;
  frame.sender = key.from;
  frame.count = sent.content.count;
  frame.bytes = sent.payload.size();
  const uint64_t digest = Digest(sent.payload);
  frame.checksum = digest;
  ready_.push_back([sent, digest] {
    RW_CHECK(Digest(sent.payload) == digest);  // unchanged until done
    sent.done(OkStatus());
  });
  wanted.done(wanted.into.first(sent.payload.size()), frame);
}

void ShuffledNetwork::Run() {
  while (!ready_.empty()) {
    const size_t at = random_.Below(ready_.size());
    std::swap(ready_[at], ready_.back());
    const std::function<void()> next = std::move(ready_.back());
    ready_.pop_back();
    next();
  }
}

}  // namespace ringwood
