#include "dense/run.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "base/digest.h"

namespace ringwood {
namespace {

class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(RunRequest request, std::function<void(StatusOr<SlotDigests>)> done)
      : request_(std::move(request)), done_(std::move(done)), slots_(request_.bounds.size() - 1) {}

  void Advance() {
    while (!waiting_ && next_ < request_.schedule.size() && done_ != nullptr) {
      const Step& step = request_.schedule[next_++];
      MessageName name = request_.name;
      name.slot = messages_[{step.op == Op::kSend, step.peer}]++;
      if (Elements(step.slot) == 0) continue;  // both sides know
      if (step.op == Op::kSend) {
        Send(step, name);
      } else {
        Receive(step, name);
      }
    }
    if (done_ == nullptr || waiting_ || sending_ != 0 || next_ < request_.schedule.size()) return;
    Finish();
  }

 private:
  struct Slot {
    bool written = false;  // the output holds its value
    bool reduced = false;  // its last value was computed here
    int sending = 0;       // sends that read the output
    uint64_t digest = 0;
  };

  size_t Elements(int slot) const { return request_.bounds[slot + 1] - request_.bounds[slot]; }
  size_t Bytes(int slot) const { return Elements(slot) * SizeOf(request_.type); }
  size_t Offset(int slot) const { return request_.bounds[slot] * SizeOf(request_.type); }
  std::span<const std::byte> Input(int slot) const {
    return request_.input.subspan(Offset(slot), Bytes(slot));
  }
  std::span<std::byte> Output(int slot) const {
    return request_.output.subspan(Offset(slot), Bytes(slot));
  }
  bool InPlace() const { return request_.input.data() == request_.output.data(); }
  Content ContentOf(int slot) const {
    return {static_cast<uint8_t>(request_.type), 0, Elements(slot)};
  }

  void Send(const Step& step, const MessageName& name) {
    Slot& slot = slots_[step.slot];
    const bool from_output = slot.written || InPlace();
    slot.sending += from_output ? 1 : 0;
    ++sending_;
    request_.transport->Send(
        step.peer, name, ContentOf(step.slot), from_output ? Output(step.slot) : Input(step.slot),
        [self = shared_from_this(), at = step.slot, from_output](Status status) {
          --self->sending_;
          if (from_output) --self->slots_[at].sending;
          if (!status.ok()) return self->Fail(status);
          self->TakeIn();
          self->Advance();
        });
  }

  void Receive(const Step& step, const MessageName& name) {
    const Slot& slot = slots_[step.slot];
    // Whether the payload may land in the output: nothing reads there, and a sum not yet begun.
    direct_ = slot.sending == 0 && (step.op == Op::kReceive || (!slot.written && !InPlace()));
    if (!direct_ && scratch_.size() < Bytes(step.slot)) {
      scratch_ = Buffer<std::byte>(Bytes(step.slot));
    }
    waiting_ = true;
    arrived_ = false;
    taking_ = step;
    request_.transport->Receive(
        step.peer, name, ContentOf(step.slot),
        direct_ ? Output(step.slot) : scratch_.span().first(Bytes(step.slot)),
        [self = shared_from_this(), bytes = Bytes(step.slot)](
            StatusOr<std::span<std::byte>> payload, const Frame& frame) {
          if (!payload.ok()) return self->Fail(payload.status());
          if (payload->size() != bytes) {
            return self->Fail(Corrupt("a message is shorter than its slot"));
          }
          self->arrived_ = true;
          self->checksum_ = frame.checksum;
          self->TakeIn();
          self->Advance();
        });
  }

  // Brings an arrived payload into the output, as soon as no send reads there any more.
  void TakeIn() {
    Slot& slot = slots_[taking_.slot];
    if (!waiting_ || !arrived_ || slot.sending != 0) return;
    std::byte* const output = Output(taking_.slot).data();
    if (taking_.op == Op::kReceiveReduce) {
      const void* mine = slot.written ? static_cast<const void*>(output)
                                      : static_cast<const void*>(Input(taking_.slot).data());
      const void* theirs = direct_ ? output : scratch_.data();
      // Both sides of an exchange take the operands in the same order: it shows in NaNs' bits.
      if (taking_.peer < request_.self) std::swap(mine, theirs);
      Reduce(request_.type, request_.op, mine, theirs, output, Elements(taking_.slot));
    } else if (!direct_) {
      std::memcpy(output, scratch_.data(), Bytes(taking_.slot));
    }
    slot.written = true;
    slot.reduced = taking_.op == Op::kReceiveReduce;
    slot.digest = checksum_;
    waiting_ = false;
  }

  void Finish() {
    SlotDigests digests;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].reduced) slots_[i].digest = Digest(Output(static_cast<int>(i)));
      digests.push_back(slots_[i].digest);
    }
    std::exchange(done_, nullptr)(std::move(digests));
  }

  void Fail(const Status& status) {
    if (done_ != nullptr) std::exchange(done_, nullptr)(status);
  }

  const RunRequest request_;
  std::function<void(StatusOr<SlotDigests>)> done_;  // null once it has run
  std::vector<Slot> slots_;
  std::map<std::pair<bool, int>, uint32_t> messages_;  // (sent, peer) → how many so far
  size_t next_ = 0;
  int sending_ = 0;
  bool waiting_ = false;  // for taking_ to be taken in
  bool arrived_ = false;
  bool direct_ = false;
  Step taking_{Op::kReceive, 0, 0};
  uint64_t checksum_ = 0;
  Buffer<std::byte> scratch_;
};

}  // namespace

void RunSchedule(RunRequest request, std::function<void(StatusOr<SlotDigests>)> done) {
  RW_CHECK(!request.bounds.empty() && request.input.size() == request.output.size());
  std::make_shared<Run>(std::move(request), std::move(done))->Advance();
}

std::vector<size_t> EvenBounds(size_t count, int slots) {
  std::vector<size_t> bounds;
  const size_t share = count / slots;
  const size_t rest = count % slots;  // the first `rest` slots have one element more
  for (size_t s = 0; s <= static_cast<size_t>(slots); ++s) {
    bounds.push_back(s * share + std::min(s, rest));
  }
  return bounds;
}

}  // namespace ringwood
