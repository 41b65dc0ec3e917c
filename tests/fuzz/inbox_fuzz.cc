// What peers send and what is asked for, in any order, with frames that say anything: every
// question is answered once, nothing is written beyond what was asked for, no size wraps.
//
// sources: transport/inbox.cc transport/frame.cc base/text.cc base/status.cc base/check.cc
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "transport/inbox.h"

namespace ringwood {

// Any digest does, as long as both sides have the same.
uint64_t Digest(std::span<const std::byte> bytes, uint64_t seed) {
  for (std::byte byte : bytes) seed = (seed ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  return seed;
}

namespace {

constexpr uint64_t kStash = 4096;
constexpr size_t kMostAsked = 300;

void Require(bool holds) {
  if (!holds) std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::span<const std::byte> Bytes(size_t count) {
    count = std::min(count, size_);
    const auto* const begin = reinterpret_cast<const std::byte*>(data_);
    data_ += count;
    size_ -= count;
    return {begin, count};
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

using Waiting = std::vector<std::function<void(Status)>>;

// Holds what it claims; fetched later, or never.
class LatePayload : public IncomingPayload {
 public:
  LatePayload(uint64_t held, Waiting* waiting) : held_(held), waiting_(waiting) {}
  uint64_t HeldBytes() const override { return held_; }
  void Fetch(std::span<std::byte> into, std::function<void(Status)> done) override {
    if (!into.empty()) std::memset(into.data(), 7, into.size());
    waiting_->push_back(std::move(done));
  }

 private:
  const uint64_t held_;
  Waiting* const waiting_;
};

class Play {
 public:
  explicit Play(Input input) : input_(input) {}

  void Run() {
    while (!input_.empty() && !closed_) Move();
    for (auto& done : std::exchange(waiting_, {})) done(OkStatus());
    inbox_.Close(Aborted("over"));
    inbox_.Abandon();
    while (inbox_.RunAnswers()) {
    }
    for (const auto& asked : asked_) Require(asked->answers == 1);
  }

 private:
  struct Asked {
    std::vector<std::byte> into;
    int answers = 0;
  };

  Frame FrameOf(std::span<const std::byte> payload) {
    Frame frame;
    frame.sender = input_.Byte() % 4;
    frame.job = 1;
    frame.epoch = 1;
    frame.chunk = input_.Byte() % 4;
    frame.lane = static_cast<uint8_t>(1 + input_.Byte() % 3);
    frame.type = input_.Byte() % 9;
    frame.count = input_.Byte();
    frame.bytes = payload.size();
    frame.checksum = Digest(payload);
    if (input_.Byte() % 8 == 0) {  // it lies
      const auto raw = input_.Bytes(sizeof frame);
      std::memcpy(reinterpret_cast<std::byte*>(&frame) + 8, raw.data(),
                  std::min(raw.size(), sizeof frame - 8));
    }
    return frame;
  }

  void Ask() {
    if (asked_.size() >= kMostAsked) return;
    auto asked = std::make_shared<Asked>();
    asked->into.resize(input_.Byte());
    const MessageName name{static_cast<Lane>(1 + input_.Byte() % 3), 0, 0, input_.Byte() % 4u, 0};
    const Content content{static_cast<uint8_t>(input_.Byte() % 9), 0,
                          static_cast<uint64_t>(input_.Byte() % 3)};
    asked_.push_back(asked);
    ReceiveBuffer buffer(std::span<std::byte>(asked->into));
    if (input_.Byte() % 2 == 0) {
      buffer.take = [asked](std::span<const std::byte> bytes) {
        Require(bytes.size() <= asked->into.size());
      };
    }
    inbox_.Post(input_.Byte() % 4, name, content, buffer,
                [asked](StatusOr<std::span<std::byte>> payload, const Frame&) {
                  ++asked->answers;
                  if (payload.ok()) Require(payload->size() <= asked->into.size());
                });
  }

  void Move() {
    switch (input_.Byte() % 9) {
      case 0:
      case 1: {
        const auto payload = input_.Bytes(input_.Byte());
        inbox_.Arrive(FrameOf(payload), payload);
        break;
      }
      case 2: {
        const Frame frame = FrameOf({});
        inbox_.Arrive(frame, std::make_unique<LatePayload>(frame.bytes, &waiting_));
        break;
      }
      case 3:
      case 4:
        Ask();
        break;
      case 5:
        if (!waiting_.empty()) {
          const size_t which = input_.Byte() % waiting_.size();
          const auto done = std::move(waiting_[which]);
          waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(which));
          done(input_.Byte() % 2 == 0 ? OkStatus() : Unavailable("it broke"));
        }
        break;
      case 6:
        inbox_.RunAnswers();
        break;
      case 7:
        inbox_.Withdraw(static_cast<Lane>(1 + input_.Byte() % 3), input_.Byte() % 2);
        break;
      default: {
        const auto text = input_.Bytes(input_.Byte());
        inbox_.Fail(input_.Byte() % 4, ReadFarewell(input_.Byte(), text, "rank 1"));
      }
    }
    for (const int peer : inbox_.Awaited()) Require(inbox_.HasPending() && peer >= 0);
  }

  Input input_;
  Waiting waiting_;
  bool closed_ = false;
  std::vector<std::shared_ptr<Asked>> asked_;
  Inbox inbox_{{1, 1, 0}, {{0, "rank 0", ""}, {1, "rank 1", ""}, {2, "rank 2", ""}}, {kStash}};
};

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringwood;
  Play(Input(data, size)).Run();
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto frame = ParseFrame(bytes); frame.ok()) (void)ToString(NameOf(*frame));
  return 0;
}
