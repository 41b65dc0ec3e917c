// A reducer beside the ranks of a job (job.h), on the same in-process network.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/loop.h"
#include "plan/sparse_groups.h"
#include "plan/wire.h"
#include "sparse/reducer/reducer.h"
#include "transport/in_process.h"

namespace ringwood {

class JobReducer {
 public:
  JobReducer(InProcessNetwork* network, int workers)
      : workers_(workers), fabric_(network->MakeFabric(&loop_)), address_(fabric_->Address()) {}
  ~JobReducer() {
    OnLoop([this] {
      reducer_.reset();
      if (transport_) transport_->Close(Aborted("the test is over"));
      transport_.reset();
      fabric_.reset();
    });
  }

  const std::string& address() const { return address_; }

  // With the addresses of all nodes, this one's last. Once.
  void Connect(const std::vector<Peer>& peers) {
    OnLoop([&] { transport_ = *fabric_->Connect({1, 1, workers_}, peers, FabricLimits()); });
  }

  // From `wire_round` on; what it served before ends.
  void Serve(const v1::Plan& plan, const v1::AgreeRequest& table, uint64_t wire_round) {
    OnLoop([&] {
      const Plan read = *FromProto(plan);
      const TreeShape shape{workers_, 1, static_cast<int>(read.fanout)};
      std::vector<uint64_t> elements;
      for (const v1::Tensor& tensor : table.tensors()) elements.push_back(tensor.elements());
      reducer_.reset();
      transport_->Withdraw(Lane::kSparse, wire_round);
      reducer_ = std::make_unique<Reducer>(
          transport_.get(), shape, workers_, *SparseGroupsOf(read, shape, elements),
          [](const Status&) {});  // the ranks' own errors fail the test
      reducer_->Start(wire_round);
    });
  }

 private:
  void OnLoop(const std::function<void()>& task) {
    EXPECT_TRUE(loop_.Call([&] { return task(), OkStatus(); }, Seconds(10)).ok());
  }

  const int workers_;
  Loop loop_{"reducer"};
  std::unique_ptr<Fabric> fabric_;        // touched only on loop_
  std::unique_ptr<Transport> transport_;  // touched only on loop_
  std::unique_ptr<Reducer> reducer_;      // touched only on loop_
  const std::string address_;
};

}  // namespace ringwood
