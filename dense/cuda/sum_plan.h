// How a rank sums fp32 or bf16 in device memory over messages of NCCL's where hosts have several
// ranks, as a value; `RunStep` below runs it. NCCL's own ring goes through all P ranks, so each NIC
// carries 2 (P-1)/P of the tensor; the exchanges of host_exchanges.h carry 2 (H-1)/H. Which of the
// two is taken says SumsByHost (dense/sums_by_host.h).
//
// Chunks follow each other through the exchanges, a step apart, so that what is inside hosts takes
// place beside what is between them:
//
//     step            0    1    2    3    4    5
//     chunk 0         ai   ab   gb   gi                  ai: add inside      ab: add between
//     chunk 1              ai   ab   gb   gi             gb: gather between  gi: gather inside
//     chunk 2                   ai   ab   gb   gi
//
// A step first adds what the step before received, then exchanges. Sums lie in the output from the
// first addition on, so input and output may be the same memory; only what is received to be added
// needs staging memory.
//
// Order of additions: a host's ranks from the agent on, ((x[a] + x[a+1]) + …) modulo its ranks;
// then the hosts' sums from the part's own on, modulo H. bf16 is rounded after each of the two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "dense/cuda/host_exchanges.h"
#include "dense/cuda/plan_device.h"

namespace ringwood::cuda {

// 8 MiB of fp32: at 25 Gbit/s the exchange of one takes milliseconds, of which a step's start is a
// hundredth.
constexpr uint64_t kSumChunk = uint64_t{1} << 21;  // elements

enum class SumPlace { kInput, kOutput, kStaging };

// Counts are in elements.
struct SumMessage {
  int peer = 0;
  SumPlace place = SumPlace::kInput;
  uint64_t at = 0;
  uint64_t elements = 0;
};

// output[at …] = own[at …] + what `others` have sent.
struct SumAdd {
  SumPlace own = SumPlace::kOutput;
  uint64_t at = 0;
  uint64_t elements = 0;
  uint64_t rest = 0;  // in the staging memory, one after the other
  int others = 0;
};

struct SumStep {
  std::vector<SumAdd> adds;
  std::vector<SumMessage> sends, receives;
};

struct SumPlan {
  std::vector<SumStep> steps;
  uint64_t staging = 0;  // elements
  uint64_t sent = 0;     // elements
};

class SumPlanMaker {
 public:
  SumPlanMaker(const Hosts& hosts, int rank) : exchanges_(hosts, rank) {}

  SumPlan Make(uint64_t elements, uint64_t chunk) && {
    size_t number = 0;
    for (uint64_t first = 0; first < elements; first += chunk) {
      AddChunk(number++, first, std::min(chunk, elements - first));
    }
    return std::move(plan_);
  }

 private:
  // Where parts of the chunk lie in the tensor. The last ones may be short or empty.
  struct Range {
    uint64_t at = 0;
    uint64_t elements = 0;
  };
  Range RangeOf(const Parts& parts) const {
    const uint64_t begin = std::min(parts.first * part_, elements_);
    return {first_ + begin, std::min((parts.first + parts.count) * part_, elements_) - begin};
  }

  void AddChunk(size_t number, uint64_t first, uint64_t elements) {
    constexpr uint64_t kAligned = 8;  // 32 bytes, or 16
    first_ = first;
    elements_ = elements;
    part_ = (elements + exchanges_.parts() - 1) / exchanges_.parts();
    part_ = (part_ + kAligned - 1) / kAligned * kAligned;
    plan_.steps.resize(number + 4);
    SumStep* const steps = &plan_.steps[number];

    const auto neighbours = static_cast<uint64_t>(exchanges_.neighbours());
    const SumPlace summed = neighbours > 0 ? SumPlace::kOutput : SumPlace::kInput;
    const uint64_t between = neighbours * exchanges_.mine().count * part_;
    Exchange(exchanges_.AddInside(), SumPlace::kInput, 0, &steps[0]);
    if (neighbours > 0) {
      Add(SumPlace::kInput, exchanges_.mine(), 0, exchanges_.neighbours(), &steps[1]);
    }
    Exchange(exchanges_.AddBetween(), summed, between, &steps[1]);
    const auto others = static_cast<int>(exchanges_.hosts()) - 1;
    uint64_t rest = between;
    for (uint64_t s = 0; others > 0 && s < exchanges_.slices(); ++s) {
      const Parts part = {exchanges_.Final(s), 1};
      Add(summed, part, rest, others, &steps[2]);
      rest += static_cast<uint64_t>(others) * RangeOf(part).elements;
    }
    Gather(exchanges_.GatherBetween(), &steps[2]);
    Gather(exchanges_.GatherInside(), &steps[3]);
  }

  void Add(SumPlace own, const Parts& parts, uint64_t rest, int others, SumStep* step) const {
    const auto [at, elements] = RangeOf(parts);
    if (elements > 0) step->adds.push_back({own, at, elements, rest, others});
  }

  // What comes lies in the staging memory from `to` on, one after the other.
  void Exchange(const PartExchange& exchange, SumPlace from, uint64_t to, SumStep* step) {
    Send(exchange, from, step);
    for (const PartMessage& message : exchange.receives) {
      const uint64_t elements = RangeOf(message.parts).elements;
      if (elements > 0) step->receives.push_back({message.peer, SumPlace::kStaging, to, elements});
      to += elements;
    }
    plan_.staging = std::max(plan_.staging, to);
  }

  void Gather(const PartExchange& exchange, SumStep* step) {
    Send(exchange, SumPlace::kOutput, step);
    for (const PartMessage& message : exchange.receives) {
      const auto [at, elements] = RangeOf(message.parts);
      if (elements > 0) step->receives.push_back({message.peer, SumPlace::kOutput, at, elements});
    }
  }

  void Send(const PartExchange& exchange, SumPlace from, SumStep* step) {
    for (const PartMessage& message : exchange.sends) {
      const auto [at, elements] = RangeOf(message.parts);
      if (elements > 0) step->sends.push_back({message.peer, from, at, elements});
      plan_.sent += elements;
    }
  }

  const HostExchanges exchanges_;
  SumPlan plan_;
  // The chunk that is made.
  uint64_t first_ = 0, elements_ = 0;
  uint64_t part_ = 0;  // elements of one
};

// `hosts`: of all ranks, two at least.
inline SumPlan SumPlanFor(const Hosts& hosts, int rank, uint64_t elements,
                          uint64_t chunk = kSumChunk) {
  return SumPlanMaker(hosts, rank).Make(elements, chunk);
}

// A rank's; device memory.
struct SumMemory {
  const void* input = nullptr;
  void* output = nullptr;
  void* staging = nullptr;  // as long as the plan says
  bool bfloat16 = false;    // or float

  uint64_t width() const { return bfloat16 ? 2 : 4; }  // bytes of an element
};

inline Status RunStep(const SumStep& step, const SumMemory& memory, PlanDevice* device) {
  const uint64_t width = memory.width();
  const auto from = [&](SumPlace place, uint64_t element) {
    return static_cast<const std::byte*>(place == SumPlace::kInput    ? memory.input
                                         : place == SumPlace::kOutput ? memory.output
                                                                      : memory.staging) +
           element * width;
  };
  const auto to = [&](SumPlace place, uint64_t element) {
    void* const memory_of = place == SumPlace::kOutput ? memory.output : memory.staging;
    return static_cast<std::byte*>(memory_of) + element * width;
  };
  for (const SumAdd& add : step.adds) {
    RW_RETURN_IF_ERROR(
        device->Sum({from(add.own, add.at), from(SumPlace::kStaging, add.rest), add.others,
                     add.elements, to(SumPlace::kOutput, add.at), memory.bfloat16}));
  }
  std::vector<SendView> sends;
  for (const SumMessage& send : step.sends) {
    sends.push_back({send.peer, from(send.place, send.at), send.elements * width});
  }
  std::vector<ReceiveView> receives;
  for (const SumMessage& receive : step.receives) {
    receives.push_back({receive.peer, to(receive.place, receive.at), receive.elements * width});
  }
  return device->Exchange(sends, receives);
}

}  // namespace ringwood::cuda
