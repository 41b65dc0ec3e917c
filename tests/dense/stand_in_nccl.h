// NCCL's messages and a device's kernels on the CPU, for the plans of dense/cuda: a stand-in for
// NCCL that moves bytes when all ranks have made the call, and kernels in the emulation.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <vector>

#ifndef RW_DEVICE
#define RW_DEVICE
#endif

#include "dense/cuda/lattice_step.h"
#include "dense/cuda/nccl_exchange.h"
#include "dense/cuda/sum_step.h"
#include "dense/hosts.h"
#include "tests/base/emulated_grid.h"

namespace ringwood {

// A rank's end of the stand-in.
struct nccl::Communicator {
  struct Message {
    const void* from = nullptr;
    void* to = nullptr;
    size_t bytes = 0;
  };
  int rank = 0;
  std::map<int, std::deque<Message>> sends, receives;  // by peer, in their order
  int refused_peer = -1;
};

// NCCL's functions over such ranks. A group is the thread's.
class StandInNccl {
 public:
  using Rank = nccl::Communicator;

  explicit StandInNccl(const Hosts& hosts) : ranks_(RanksOf(hosts)), host_of_(ranks_.size()) {
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r].rank = static_cast<int>(r);
    for (size_t h = 0; h < hosts.size(); ++h) {
      for (const int rank : hosts[h]) host_of_[rank] = h;
    }
    left_host_.resize(hosts.size());
    groups_ = groups_open_ = 0;
  }
  Rank* rank(int r) { return &ranks_[r]; }
  static int groups() { return groups_; }
  static bool open() { return groups_open_ != 0; }
  const std::vector<uint64_t>& left_host() const { return left_host_; }  // bytes, by host

  static nccl::Library Library() {
    nccl::Library library;
    library.group_start = [] {
      ++groups_;
      return ++groups_open_ == 1 ? nccl::kSuccess : 5;  // ncclInvalidUsage
    };
    library.group_end = [] {
      --groups_open_;
      return static_cast<int>(nccl::kInProgress);
    };
    library.send = [](const void* from, size_t bytes, int type, int peer, Rank* rank,
                      nccl::Stream) {
      EXPECT_EQ(type, 1);  // bytes
      EXPECT_EQ(groups_open_, 1);
      if (peer == rank->refused_peer) return 4;  // ncclInvalidArgument
      rank->sends[peer].push_back({from, nullptr, bytes});
      return static_cast<int>(nccl::kSuccess);
    };
    library.recv = [](void* to, size_t bytes, int type, int peer, Rank* rank, nccl::Stream) {
      EXPECT_EQ(type, 1);
      EXPECT_EQ(groups_open_, 1);
      rank->receives[peer].push_back({nullptr, to, bytes});
      return static_cast<int>(nccl::kSuccess);
    };
    return library;
  }

  // Every receive has its send, of as many bytes. Returns what rank 0 sent.
  uint64_t Deliver() {
    uint64_t sent = 0;
    for (Rank& to : ranks_) {
      for (auto& [peer, receives] : to.receives) {
        EXPECT_NE(peer, to.rank);
        std::deque<Rank::Message>& sends = ranks_[peer].sends[to.rank];
        for (const Rank::Message& receive : receives) {
          const bool fits = !sends.empty() && sends.front().bytes == receive.bytes;
          EXPECT_TRUE(fits) << "rank " << to.rank << " waits for rank " << peer;
          if (!fits) return 0;
          EXPECT_GT(receive.bytes, 0u);
          std::memcpy(receive.to, sends.front().from, receive.bytes);
          sends.pop_front();
          if (peer == 0) sent += receive.bytes;
          if (host_of_[peer] != host_of_[to.rank]) left_host_[host_of_[peer]] += receive.bytes;
        }
        receives.clear();
      }
    }
    for (const Rank& rank : ranks_) {
      for (const auto& [peer, left] : rank.sends) {
        EXPECT_TRUE(left.empty()) << "rank " << peer << " takes nothing from rank " << rank.rank;
      }
    }
    return sent;
  }

 private:
  static inline int groups_ = 0, groups_open_ = 0;
  std::vector<Rank> ranks_;
  std::vector<size_t> host_of_;
  std::vector<uint64_t> left_host_;
};

// Kernels in the emulation, messages by the stand-in.
class EmulatedDevice : public cuda::PlanDevice {
 public:
  explicit EmulatedDevice(nccl::Communicator* rank) : rank_(rank) {}
  Status Exchange(std::span<const cuda::SendView> sends,
                  std::span<const cuda::ReceiveView> receives) override {
    if (sends.empty() && receives.empty()) return OkStatus();
    const int result = nccl::Exchange(library_, rank_, sends, receives, nullptr);
    return result == nccl::kInProgress ? OkStatus() : Internal("refused");
  }
  Status Sum(const cuda::SumView& view) override {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) {
      if (view.bfloat16) return cuda::SumElements<uint16_t>(thread, view);
      cuda::SumElements<float>(thread, view);
    });
    return OkStatus();
  }
  Status Encode(const cuda::EncodeView& view) override {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) { cuda::EncodePacks(thread, view); });
    return OkStatus();
  }
  Status Add(const cuda::AddView& view) override {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) { cuda::AddPacks(thread, view); });
    return OkStatus();
  }
  Status Decode(const cuda::DecodeView& view) override {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) { cuda::DecodePacks(thread, view); });
    return OkStatus();
  }

 private:
  nccl::Communicator* const rank_;
  const nccl::Library library_ = StandInNccl::Library();
};

}  // namespace ringwood
