// CUDA's execution model on one thread of the CPU, for the bodies of kernels: every thread of a
// grid is a fiber with its own stack; barriers and warp exchanges hand over to the next fiber.
// Blocks with a GridSync between them run together. A kernel whose threads do not all meet stops
// the test instead of hanging. A fiber is born by swapcontext and then goes on by longjmp, which
// makes no system call.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/cuda/threads.h"

namespace ringwood {

class EmulatedGrid;

// What all threads did since EmulatedThread::Forget: a test tells by it how a kernel works, which
// its results do not show.
struct EmulatedCounts {
  uint64_t vector_loads = 0;
  uint64_t vector_stores = 0;
  uint64_t late_loads = 0;  // vector loads behind a vector store, without a barrier between them
  uint64_t syncs = 0;       // of the first thread of each block
  uint64_t grid_syncs = 0;  // of the grid's first thread
};

// The Thread of base/cuda/threads.h.
class EmulatedThread {
 public:
  EmulatedThread(EmulatedGrid* grid, uint32_t block, uint32_t id)
      : grid_(grid), block_(block), id_(id) {}

  uint32_t block() const { return block_; }
  uint32_t blocks() const;
  uint32_t id() const { return id_; }
  uint32_t lane() const { return id_ % cuda::kWarp; }
  uint32_t warp() const { return id_ / cuda::kWarp; }
  void Sync();
  void GridSync();
  void Fence() {}
  uint32_t Ballot(bool yes) {
    uint32_t mask = 0;
    const uint32_t* all = Exchange(yes ? 1 : 0);
    for (uint32_t i = 0; i < cuda::kWarp; ++i) mask |= all[i] << i;
    return mask;
  }
  template <class Value>
  Value ShuffleUp(Value value, uint32_t distance) {
    const uint32_t* all = Exchange(std::bit_cast<uint32_t>(value));
    return std::bit_cast<Value>(all[lane() >= distance ? lane() - distance : lane()]);
  }
  template <class Value>
  Value Shuffle(Value value, uint32_t from) {
    return std::bit_cast<Value>(Exchange(std::bit_cast<uint32_t>(value))[from]);
  }
  uint32_t WarpMax(uint32_t value) {
    const uint32_t* all = Exchange(value);
    return *std::max_element(all, all + cuda::kWarp);
  }
  void AtomicMax(uint32_t* to, uint32_t value) { *to = std::max(*to, value); }
  uint32_t AtomicAdd(uint32_t* to, uint32_t value) {
    const uint32_t before = *to;
    *to += value;
    return before;
  }

  static uint32_t Key(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }
  static uint32_t Word(float value) { return std::bit_cast<uint32_t>(value); }
  static float FromKey(uint32_t key) { return std::bit_cast<float>(key); }
  static uint32_t Bits(uint32_t mask) { return static_cast<uint32_t>(std::popcount(mask)); }
  static uint32_t LoadFresh(const uint32_t* from) { return *from; }
  static cuda::Four Load4(const float* from) {
    RW_CHECK(reinterpret_cast<uintptr_t>(from) % 16 == 0);  // a fault on the device
    ++counts_.vector_loads;
    counts_.late_loads += stored_;
    cuda::Four loaded;
    std::memcpy(&loaded, from, sizeof loaded);
    return loaded;
  }
  static void Store4(float* to, const cuda::Four& value) {
    RW_CHECK(reinterpret_cast<uintptr_t>(to) % 16 == 0);
    ++counts_.vector_stores;
    stored_ = true;
    std::memcpy(to, &value, sizeof value);
  }

  static const EmulatedCounts& counts() { return counts_; }
  static void Forget() { counts_ = {}; }

 private:
  friend class EmulatedGrid;
  static inline EmulatedCounts counts_;
  static inline bool stored_ = false;        // by the running thread since it last waited
  const uint32_t* Exchange(uint32_t value);  // the values of all lanes of this warp

  EmulatedGrid* const grid_;
  const uint32_t block_;
  const uint32_t id_;
  uint32_t turn_ = 0;  // exchanges alternate between two rows, so one barrier each is enough
};

class EmulatedGrid {
 public:
  using Body = std::function<void(EmulatedThread&)>;

  // Runs `body` in every thread of `blocks` blocks that exist at once.
  static void Run(uint32_t blocks, const Body& body) {
    const Stacks stacks(new char[size_t{blocks} * cuda::kThreads * kStackBytes]);
    EmulatedGrid(blocks, 0, blocks, body, stacks.get()).Schedule();
  }

  // The blocks one after the other, the last first: no order is promised between them.
  static void RunEach(uint32_t blocks, const Body& body) {
    const Stacks stacks(new char[cuda::kThreads * kStackBytes]);
    for (uint32_t block = blocks; block-- > 0;) {
      EmulatedGrid(1, block, blocks, body, stacks.get()).Schedule();
    }
  }

 private:
  friend class EmulatedThread;
  static constexpr size_t kStackBytes = 32 << 10;
  static constexpr uint64_t kMaxIdleTurns = 1000;  // of all fibers, without a barrier passed

  using Stacks = std::unique_ptr<char[]>;  // not zeroed: most of it is never touched

  struct Barrier {
    uint32_t size = 0, arrived = 0, generation = 0;
  };
  struct Warp {
    Barrier barrier{cuda::kWarp};
    uint32_t values[2][cuda::kWarp];
  };
  struct Fiber {
    ucontext_t birth;
    jmp_buf resume;
    std::unique_ptr<EmulatedThread> thread;
    bool born = false;
    bool done = false;
  };

  EmulatedGrid(uint32_t resident, uint32_t first, uint32_t blocks, const Body& body, char* stacks)
      : first_(first), blocks_(blocks), body_(body), warps_(resident * cuda::kWarps) {
    grid_.size = resident * cuda::kThreads;
    block_.assign(resident, Barrier{cuda::kThreads});
    fibers_.resize(grid_.size);
    for (uint32_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      fiber.thread =
          std::make_unique<EmulatedThread>(this, first + i / cuda::kThreads, i % cuda::kThreads);
      getcontext(&fiber.birth);
      fiber.birth.uc_stack.ss_sp = stacks + i * kStackBytes;
      fiber.birth.uc_stack.ss_size = kStackBytes;
      fiber.birth.uc_link = nullptr;
      const auto self = reinterpret_cast<uintptr_t>(this);
      makecontext(&fiber.birth, reinterpret_cast<void (*)()>(&EmulatedGrid::Enter), 3,
                  static_cast<int>(self >> 32), static_cast<int>(self & 0xffffffffu),
                  static_cast<int>(i));
    }
  }

  static void Enter(int high, int low, int index) {
    auto* const grid = reinterpret_cast<EmulatedGrid*>(uint64_t{static_cast<uint32_t>(high)} << 32 |
                                                       static_cast<uint32_t>(low));
    Fiber& fiber = grid->fibers_[index];
    grid->body_(*fiber.thread);
    fiber.done = true;
    grid->idle_turns_ = 0;
    _longjmp(grid->scheduler_, 1);
  }

  void Schedule() {
    bool running = true;
    while (running) {
      running = false;
      RW_CHECK(++idle_turns_ < kMaxIdleTurns);  // some threads wait where others never come
      for (Fiber& fiber : fibers_) {
        if (fiber.done) continue;
        running = true;
        Resume(fiber);
      }
    }
  }

  // Returns when the fiber waits or has ended.
  void Resume(Fiber& fiber) {
    current_ = &fiber;
    EmulatedThread::stored_ = false;
    if (_setjmp(scheduler_) != 0) return;
    if (std::exchange(fiber.born, true)) _longjmp(fiber.resume, 1);
    ucontext_t unused;
    swapcontext(&unused, &fiber.birth);
  }

  void Wait(Barrier& barrier) {
    const uint32_t generation = barrier.generation;
    if (++barrier.arrived == barrier.size) {
      barrier.arrived = 0;
      ++barrier.generation;
      idle_turns_ = 0;
      return;
    }
    Fiber* const self = current_;
    while (barrier.generation == generation) {
      if (_setjmp(self->resume) == 0) _longjmp(scheduler_, 1);
    }
  }

  const uint32_t first_;  // of the blocks that exist
  const uint32_t blocks_;
  const Body body_;
  Barrier grid_;
  std::vector<Barrier> block_;
  std::vector<Warp> warps_;
  std::vector<Fiber> fibers_;
  Fiber* current_ = nullptr;
  jmp_buf scheduler_;
  uint64_t idle_turns_ = 0;
};

inline uint32_t EmulatedThread::blocks() const { return grid_->blocks_; }
inline void EmulatedThread::Sync() {
  counts_.syncs += id_ == 0;
  grid_->Wait(grid_->block_[block_ - grid_->first_]);
}
inline void EmulatedThread::GridSync() {
  counts_.grid_syncs += block_ == 0 && id_ == 0;
  grid_->Wait(grid_->grid_);
}
inline const uint32_t* EmulatedThread::Exchange(uint32_t value) {
  EmulatedGrid::Warp& warp = grid_->warps_[(block_ - grid_->first_) * cuda::kWarps + this->warp()];
  uint32_t* const row = warp.values[turn_++ % 2];
  row[lane()] = value;
  grid_->Wait(warp.barrier);
  return row;
}

}  // namespace ringwood
