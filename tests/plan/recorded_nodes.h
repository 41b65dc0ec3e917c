// Nodes of one epoch in one process whose messages are written down: what each node sends, and what
// it has received, in order.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "base/check.h"
#include "base/loop.h"
#include "transport/in_process.h"

namespace ringwood {

struct Recorded {
  bool sent = false;
  int peer = 0;
  MessageName name;
  uint64_t bytes = 0;
  bool operator==(const Recorded&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Recorded& recorded) {
  return out << (recorded.sent ? "send to " : "receive from ") << recorded.peer << ", "
             << ToString(recorded.name) << ", " << recorded.bytes << " bytes";
}

// On its transport's thread; the log outlives it.
class RecordingTransport : public Transport {
 public:
  RecordingTransport(std::unique_ptr<Transport> inner, std::vector<Recorded>* log)
      : inner_(std::move(inner)), log_(log) {}

  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            SendDone done) override {
    log_->push_back({true, peer, name, payload.bytes.size()});
    inner_->Send(peer, name, content, payload, std::move(done));
  }

  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, ReceiveDone done) override {
    inner_->Receive(peer, name, content, buffer,
                    [log = log_, peer, name, done = std::move(done)](
                        StatusOr<std::span<std::byte>> payload, const Frame& frame) {
                      if (payload.ok()) log->push_back({false, peer, name, payload->size()});
                      done(payload, frame);
                    });
  }

  void Withdraw(Lane lane, uint64_t round) override { inner_->Withdraw(lane, round); }
  void Close(const Status& reason) override { inner_->Close(reason); }
  TransportCounters Counters() const override { return inner_->Counters(); }

 private:
  const std::unique_ptr<Transport> inner_;
  std::vector<Recorded>* const log_;
};

class RecordedNodes {
 public:
  explicit RecordedNodes(int nodes) : loop_("nodes"), logs_(nodes) {
    std::vector<Peer> peers;
    for (int node = 0; node < nodes; ++node) {
      fabrics_.push_back(network_.MakeFabric(&loop_));
      peers.push_back({node, absl::StrFormat("node %d", node), fabrics_.back()->Address()});
    }
    Call([&] {
      for (int node = 0; node < nodes; ++node) {
        auto end = fabrics_[node]->Connect({1, 1, node}, peers, FabricLimits());
        RW_CHECK(end.ok());
        ends_.push_back(std::make_unique<RecordingTransport>(*std::move(end), &logs_[node]));
      }
    });
  }

  ~RecordedNodes() {
    Call([&] {
      for (auto& end : ends_) end->Close(Aborted("the test is over"));
      ends_.clear();
      fabrics_.clear();
    });
  }

  Transport* at(int node) { return ends_[node].get(); }
  // Of everything since it was last taken; not while something is under way.
  std::vector<Recorded> TakeLog(int node) { return std::exchange(logs_[node], {}); }

  // On the loop; waits.
  void Call(const std::function<void()>& task) {
    const auto run = [&task] {
      task();
      return OkStatus();
    };
    RW_CHECK(loop_.Call(run, Seconds(60)).ok());
  }

  // Calls `start(i, done)` for i below `count`, on the loop, and waits until each has called
  // `done`.
  void Run(int count, const std::function<void(int, std::function<void(Status)>)>& start) {
    absl::BlockingCounter missing(count);
    Call([&] {
      for (int i = 0; i < count; ++i) {
        start(i, [&missing, i](const Status& status) {
          EXPECT_TRUE(status.ok()) << i << ": " << Message(status);
          missing.DecrementCount();
        });
      }
    });
    missing.Wait();
    Call([] {});  // what was answered has returned
  }

 private:
  InProcessNetwork network_;
  Loop loop_;
  std::vector<std::vector<Recorded>> logs_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  std::vector<std::unique_ptr<Transport>> ends_;
};

}  // namespace ringwood
