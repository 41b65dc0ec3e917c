#include "dense/run.h"

#include <map>
#include <memory>
#include <utility>

#include "base/check.h"

namespace ringwood {
namespace {

class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(RunRequest request, std::function<void(StatusOr<SlotDigests>)> done)
      : request_(std::move(request)), done_(std::move(done)), slots_(MakeSlots(request_.values)) {}

  void Advance() {
    const Schedule& schedule = request_.collective->schedule;
    while (!waiting_ && next_ < schedule.size() && done_ != nullptr) {
      const Step& step = schedule[next_++];
      MessageName name = request_.name;
      name.slot = messages_[{step.op == Op::kSend, step.peer}]++;
      if (slots_->Elements(step.slot) == 0) continue;  // both sides know
      if (step.op == Op::kSend) {
        Send(step, name);
      } else {
        Receive(step, name);
      }
    }
    if (done_ == nullptr || waiting_ || sending_ != 0 || next_ < schedule.size()) return;
    std::exchange(done_, nullptr)(slots_->Finish());
  }

 private:
  Content ContentOf(const Step& step) const {
    Content content = slots_->ContentOf(step);
    content.asked = request_.asked;
    content.asked.op = request_.values.op;
    if (content.asked.whole == 0) content.asked.whole = request_.collective->elements;
    return content;
  }

  void Send(const Step& step, const MessageName& name) {
    const Slots::Outgoing outgoing = slots_->BeginSend(step);
    ++sending_;
    request_.transport->Send(
        step.peer, name, ContentOf(step), outgoing.payload,
        [self = shared_from_this(), slot = step.slot, held = outgoing.held](Status status) {
          --self->sending_;
          if (held) self->slots_->EndSend(slot);
          if (!status.ok()) return self->Fail(status);
          self->TakeIn();
          self->Advance();
        });
  }

  void Receive(const Step& step, const MessageName& name) {
    waiting_ = true;
    arrived_ = false;
    // Both sides of an exchange take the operands in the same order: it shows in NaNs' bits.
    taking_ = {step, step.peer < request_.self};
    request_.transport->Receive(
        step.peer, name, ContentOf(step), slots_->BeginReceive(taking_),
        [self = shared_from_this(), bytes = slots_->Bytes(step)](
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

  // Takes in what has arrived, as soon as no send holds the slot any more.
  void TakeIn() {
    if (waiting_ && arrived_) waiting_ = !slots_->EndReceive(taking_, checksum_);
  }

  void Fail(const Status& status) {
    if (done_ != nullptr) std::exchange(done_, nullptr)(status);
  }

  const RunRequest request_;
  std::function<void(StatusOr<SlotDigests>)> done_;  // null once it has run
  const std::unique_ptr<Slots> slots_;
  std::map<std::pair<bool, int>, uint32_t> messages_;  // (sent, peer) → how many so far
  size_t next_ = 0;
  int sending_ = 0;
  bool waiting_ = false;  // for taking_ to be taken in
  bool arrived_ = false;
  Slots::Incoming taking_;
  uint64_t checksum_ = 0;
};

}  // namespace

void RunChunk(RunRequest request, std::function<void(StatusOr<SlotDigests>)> done) {
  const Values& values = request.values;
  RW_CHECK(!values.slots.empty());
  RW_CHECK(values.code_bits != 0 || values.input.size() == values.output.size());
  std::make_shared<Run>(std::move(request), std::move(done))->Advance();
}

}  // namespace ringwood
