// A job in one test: nodes with a Loop each, connected by the transport under test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "base/loop.h"
#include "tests/identity/issued.h"
#include "transport/fabric.h"
#include "transport/grpc/fabric.h"
#include "transport/in_process.h"
#include "transport/ucx/fabric.h"

namespace ringwood {

enum class Kind { kInProcess, kUcx, kUcxOneHost, kGrpc, kGrpcTls };

inline std::string NameOfKind(Kind kind) {
  switch (kind) {
    case Kind::kInProcess:
      return "InProcess";
    case Kind::kUcx:
      return "Ucx";
    case Kind::kUcxOneHost:
      return "UcxOneHost";
    case Kind::kGrpc:
      return "Grpc";
    case Kind::kGrpcTls:
      return "GrpcTls";
  }
  return "";
}

class World {
 public:
  static constexpr uint64_t kJob = 42;
  static constexpr uint64_t kEpoch = 7;

  explicit World(Kind kind, int size, bool connect = true) {
    for (int i = 0; i < size; ++i) loops_.push_back(std::make_unique<Loop>("node"));
    fabrics_.resize(size);
    transports_.resize(size);
    for (int i = 0; i < size; ++i) {
      fabrics_[i] = MakeFabric(kind, i, loops_[i].get());
      peers_.push_back({i, absl::StrFormat("rank %d (host h%d)", i, i), fabrics_[i]->Address(),
                        kind == Kind::kUcxOneHost ? "h" : "", IdentityRole::kRank, i});
    }
    for (int i = 0; connect && i < size; ++i) Connect(i);
  }

  ~World() {
    for (int i = 0; i < size(); ++i) {
      Run(i, [this, i] {
        transports_[i].reset();
        fabrics_[i].reset();
      });
    }
  }

  int size() const { return static_cast<int>(loops_.size()); }
  Loop* loop(int node) { return loops_[node].get(); }
  Transport* transport(int node) { return transports_[node].get(); }
  std::vector<Peer>& peers() { return peers_; }

  void Connect(int node, uint64_t epoch = kEpoch, const FabricLimits& limits = {}) {
    Run(node, [&] {
      auto made = fabrics_[node]->Connect({kJob, epoch, node}, peers_, limits);
      ASSERT_TRUE(made.ok()) << Message(made.status());
      transports_[node] = std::move(*made);
    });
  }

  Status TryConnect(int node, const FabricLimits& limits) {
    Status status;
    Run(node, [&] {
      status = fabrics_[node]->Connect({kJob, kEpoch, node}, peers_, limits).status();
    });
    return status;
  }

  // Runs on the node's loop and waits.
  void Run(int node, const std::function<void()>& task) {
    const Status status = loops_[node]->Call(
        [&task] {
          task();
          return OkStatus();
        },
        Seconds(30));
    RW_CHECK(status.ok());
  }

  // Runs on every node's loop; waits until each has called its argument.
  void RunAll(const std::function<void(int, std::function<void()>)>& task) {
    std::vector<std::unique_ptr<absl::Notification>> done;
    for (int i = 0; i < size(); ++i) done.push_back(std::make_unique<absl::Notification>());
    for (int i = 0; i < size(); ++i) {
      loops_[i]->Post([&, i] { task(i, [&, i] { done[i]->Notify(); }); });
    }
    for (int i = 0; i < size(); ++i) {
      RW_CHECK(done[i]->WaitForNotificationWithTimeout(absl::Seconds(60)));
    }
  }

  void Close(int node, const Status& reason) {
    Run(node, [&] { transports_[node]->Close(reason); });
  }

 private:
  std::unique_ptr<Fabric> MakeFabric(Kind kind, int node, Loop* loop) {
    if (kind == Kind::kInProcess) return network_.MakeFabric(loop);
    GrpcOptions grpc;
    if (kind == Kind::kGrpcTls) {
      if (issuer_ == nullptr) issuer_ = std::make_unique<Issuer>();
      grpc.credentials = issuer_->For(IdentityRole::kRank, node);
    }
    const bool ucx = kind == Kind::kUcx || kind == Kind::kUcxOneHost;
    auto made = ucx ? MakeUcxFabric(loop, {}) : MakeGrpcFabric(loop, grpc);
    EXPECT_TRUE(made.ok()) << Message(made.status());
    return made.ok() ? std::move(*made) : nullptr;
  }

  InProcessNetwork network_;
  std::unique_ptr<Issuer> issuer_;  // with TLS
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Peer> peers_;
};

// The answer to one Send or Receive, waited for from the test's thread.
struct Answer {
  absl::Notification ready;
  Status status;
  Frame frame;
  size_t bytes = 0;

  Status Wait(double seconds = 20) {
    if (!ready.WaitForNotificationWithTimeout(absl::Seconds(seconds))) {
      return TimedOut("no answer");
    }
    return status;
  }
  Transport::SendDone ForSend() {
    return [this](Status s) {
      status = s;
      ready.Notify();
    };
  }
  Transport::ReceiveDone ForReceive() {
    return [this](StatusOr<std::span<std::byte>> payload, const Frame& f) {
      status = payload.status();
      frame = f;
      bytes = payload.ok() ? payload->size() : 0;
      ready.Notify();
    };
  }
};

}  // namespace ringwood
