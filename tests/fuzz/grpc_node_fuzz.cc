// Pieces of any content from the peer of a gRPC node, cut anywhere, while messages are asked for:
// nothing is written where it does not belong, and what was asked for is answered in the end. The
// stream is played by this file; node, inbox and payloads are the real ones.
// sources: transport/grpc/node.cc transport/grpc/link.cc transport/grpc/assembly.cc
// sources: base/net/endpoint.cc base/net/socket_address.cc transport/grpc/hello.cc
// sources: transport/inbox.cc transport/frame.cc transport/watch.cc transport/descriptors.cc
// sources: base/status.cc base/check.cc base/loop.cc base/log.cc base/random.cc
// sources: identity/name.cc base/text.cc
// sources: base/log_line.cc base/log_limit.cc base/quoted.cc base/files/descriptors.cc
// libraries: libcrypto absl_synchronization grpc++
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/log.h"
#include "transport/grpc/node.h"

namespace ringwood {

// Any digest does, as long as both sides have the same.
uint64_t Digest(std::span<const std::byte> bytes, uint64_t seed) {
  for (std::byte byte : bytes) seed = (seed ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  return seed;
}

namespace {

constexpr uint64_t kCaller = 0xabcd;

void Require(bool holds) {
  if (!holds) std::abort();
}

// The one connection; what the node writes goes nowhere. Lives as long as its Play.
class PlayedStream : public GrpcStream {
 public:
  void Start(StreamEvents events) override { events_ = std::move(events); }
  void Read() override { reads_ = true; }
  void Write(std::span<const std::byte>, std::span<const std::byte>) override { writing_ = true; }
  void Release(std::deque<std::vector<std::byte>>) override { released_ = true; }

  bool released() const { return released_; }
  void Arrive(std::span<const std::byte> piece) {
    if (released_ || !std::exchange(reads_, false)) return;
    events_.arrived(std::vector<std::byte>(piece.begin(), piece.end()));
  }
  void Finish() {
    if (!released_ && std::exchange(writing_, false)) events_.written(true);
  }
  void End() {
    if (!released_) events_.gone("it closed its connection");
  }

 private:
  StreamEvents events_;
  bool reads_ = false, writing_ = false, released_ = false;
};

struct Stage {
  PlayedStream stream;
  std::function<void(uint64_t)> incoming;
};
Stage* stage = nullptr;  // of the run that is going on; OpenGrpcListener has no other way to it

class PlayedListener : public GrpcListener {
 public:
  int port() const override { return 1; }
  GrpcStream* Claim(uint64_t) override { return &stage->stream; }
  GrpcStream* Call(const std::string&, const Peer&) override { return &stage->stream; }
  void Close(double) override {}
};

void On(Loop* loop, const std::function<void()>& task) {
  Require(loop->Call([&] { return task(), OkStatus(); }, Seconds(60)).ok());
}

struct Question {
  std::vector<std::byte> into;
  int answers = 0;
};

void Play(Loop* loop, std::span<const std::byte> input) {
  Stage here;
  stage = &here;
  std::vector<std::unique_ptr<Question>> asked;
  std::shared_ptr<GrpcNode> node;
  On(loop, [&] {
    node = std::make_shared<GrpcNode>(loop, GrpcOptions());
    Require(node->Start("127.0.0.1").ok());
    const std::vector<Peer> peers = {
        {0, "rank 0", absl::StrFormat("grpc 127.0.0.1:1 %016x", kCaller)},
        {1, "rank 1", node->address()}};
    FabricLimits limits;
    limits.stash_bytes = 1 << 20;
    Require(node->Connect({1, 1, 1}, peers, limits).ok());
    here.incoming(1);
  });
  On(loop, [&] {
    const std::string address = node->address();
    const uint64_t called = std::stoull(address.substr(address.rfind(' ') + 1), nullptr, 16);
    std::vector<std::byte> hello{std::byte{1}};
    for (std::byte byte : SignHello({{1, 1, 0}, 1, kCaller, called}, "")) hello.push_back(byte);
    here.stream.Arrive(hello);
  });
  // Each move is a kind, a length in two bytes and so much content.
  while (input.size() >= 3) {
    const unsigned kind = std::to_integer<unsigned>(input[0]);
    size_t length = std::to_integer<size_t>(input[1]) | std::to_integer<size_t>(input[2]) << 8;
    input = input.subspan(3);
    length = std::min(length, input.size());
    const auto content = input.first(length);
    input = input.subspan(length);
    On(loop, [&] {
      here.stream.Finish();
      if (kind % 4 == 0 && asked.size() < 100) {
        asked.push_back(std::make_unique<Question>());
        Question* const question = asked.back().get();
        question->into.resize(length * 1000 % 1'000'000);
        node->Receive(0, {Lane::kDense, 0, 0, kind / 4 % 4, 0}, {0, 0, 0}, question->into,
                      [question](StatusOr<std::span<std::byte>> payload, const Frame&) {
                        ++question->answers;
                        if (payload.ok()) Require(payload->size() <= question->into.size());
                      });
      } else if (kind == 255) {
        here.stream.End();
      } else if (kind % 4 == 1) {  // a full piece: what a long message begins with
        std::vector<std::byte> piece(kPieceBytes, std::byte{9});
        std::copy(content.begin(), content.end(), piece.begin());
        here.stream.Arrive(piece);
      } else {
        here.stream.Arrive(content);
      }
    });
  }
  On(loop, [&] { node->Close(OkStatus()); });
  On(loop, [&] { node.reset(); });
  for (const auto& question : asked) Require(question->answers == 1);
}

}  // namespace

StatusOr<std::unique_ptr<GrpcListener>> OpenGrpcListener(
    const std::string&, const GrpcOptions&, std::function<void(uint64_t number)> incoming) {
  stage->incoming = std::move(incoming);
  return std::unique_ptr<GrpcListener>(std::make_unique<PlayedListener>());
}

}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Never destroyed: its thread has state of OpenSSL.
  static ringwood::Loop* const loop = new ringwood::Loop("fuzz");
  ringwood::Play(loop, {reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
