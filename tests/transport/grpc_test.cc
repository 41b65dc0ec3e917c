// What is gRPC's own on the data plane: credentials, strangers, pieces that lie. The contract that
// it shares with the other transports is in contract_test.cc.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "absl/time/clock.h"
#include "base/digest.h"
#include "tests/transport/world.h"
#include "transport/grpc/hello.h"
#include "transport/grpc/stream.h"

namespace ringwood {
namespace {

constexpr uint64_t kImpostor = 0xabcd;  // the client id of a peer that the test plays

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <typename T>
std::vector<std::byte> Piece(int kind, const T& body, size_t payload = 0) {
  std::vector<std::byte> piece(1 + sizeof body + payload);
  piece[0] = static_cast<std::byte>(kind);
  std::memcpy(piece.data() + 1, &body, sizeof body);
  return piece;
}

Frame FrameOf(uint32_t sender, uint64_t bytes) {
  Frame frame;
  frame.sender = sender;
  frame.job = World::kJob;
  frame.epoch = World::kEpoch;
  frame.lane = static_cast<uint8_t>(Lane::kDense);
  frame.bytes = bytes;
  return frame;
}

// Node 1 is real; node 0 is the test, which says on the stream what it wants.
class Impostor {
 public:
  explicit Impostor(const FabricLimits& limits = {},
                    std::shared_ptr<const Credentials> nodes = nullptr,
                    std::shared_ptr<const Credentials> own = nullptr) {
    GrpcOptions real, played;
    real.credentials = std::move(nodes);
    played.credentials = std::move(own);
    auto made = MakeGrpcFabric(&loop_, real);
    EXPECT_TRUE(made.ok()) << Message(made.status());
    fabric_ = std::move(*made);
    listener_ = *OpenGrpcListener("127.0.0.1", played, [this](uint64_t number) {
      called_number_ = number;
      called_.Notify();
    });
    const std::vector<Peer> peers = {
        {0, "rank 0 (host evil)",
         absl::StrFormat("grpc 127.0.0.1:%d %016x", listener_->port(), kImpostor), "",
         IdentityRole::kRank, 0},
        {1, "rank 1 (host h1)", fabric_->Address(), "", IdentityRole::kRank, 1}};
    OnLoop([&] { transport_ = *fabric_->Connect({World::kJob, World::kEpoch, 1}, peers, limits); });
    const std::string address = fabric_->Address();
    hello_ = {{World::kJob, World::kEpoch, 0},
              1,
              kImpostor,
              std::stoull(address.substr(address.rfind(' ') + 1), nullptr, 16)};
    stream_ = listener_->Call(address.substr(5, address.rfind(' ') - 5), peers[1]);
    stream_->Start({[this](std::vector<std::byte> piece) {
                      heard_ = std::move(piece);
                      came_->Notify();
                    },
                    [this](bool) { written_->Notify(); }, [this](std::string) { gone_.Notify(); }});
  }
  ~Impostor() {
    Leave();
    LeaveCalled();
    OnLoop([&] {
      transport_.reset();
      fabric_.reset();
    });
  }

  void Say(const std::vector<std::byte>& piece) {
    written_ = std::make_unique<absl::Notification>();
    stream_->Write(piece, {});
    EXPECT_TRUE(written_->WaitForNotificationWithTimeout(absl::Seconds(20)));
  }
  Hello hello() const { return hello_; }  // the right one
  void SayHello() { SayHello(hello_, ""); }
  void SayHello(const Hello& hello, const std::string& token) {
    std::vector<std::byte> piece{std::byte{1}};
    for (std::byte byte : SignHello(hello, token)) piece.push_back(byte);
    Say(piece);
  }
  // The next piece that comes; call `ask` in between.
  std::vector<std::byte> Hear(const std::function<void()>& ask) {
    came_ = std::make_unique<absl::Notification>();
    stream_->Read();
    ask();
    return Heard();
  }
  // What Read waits for.
  std::vector<std::byte> Heard() {
    EXPECT_TRUE(came_->WaitForNotificationWithTimeout(absl::Seconds(20)));
    return heard_;
  }
  void Read() {
    came_ = std::make_unique<absl::Notification>();
    stream_->Read();
  }
  bool IsEnded() { return gone_.WaitForNotificationWithTimeout(absl::Seconds(20)); }
  // The link ends.
  void Leave() {
    if (stream_ != nullptr) std::exchange(stream_, nullptr)->Release();
  }
  // The real node calls, as it has something to send; there are two links once SayHello was heard.
  void BeCalled() {
    OnLoop([&] { transport_->Send(0, {Lane::kDense, 0, 0, 0, 0}, {}, {}, [](const Status&) {}); });
    ASSERT_TRUE(called_.WaitForNotificationWithTimeout(absl::Seconds(20)));
    called_stream_ = listener_->Claim(called_number_);
    called_stream_->Start({[](std::vector<std::byte>) {}, [](bool) {}, [](std::string) {}});
  }
  void SayWhereCalled(const std::vector<std::byte>& piece) { called_stream_->Write(piece, {}); }
  void LeaveCalled() {
    if (called_stream_ != nullptr) std::exchange(called_stream_, nullptr)->Release();
  }
  // Waits until the real node has another number of links than before.
  uint64_t LinksOtherThan(uint64_t before) {
    uint64_t links = before;
    for (const TimePoint end = Now() + Seconds(20); links == before && Now() < end;) {
      OnLoop([&] { links = transport_->Counters().connections; });
    }
    return links;
  }
  void Ask(uint32_t chunk, std::vector<std::byte>* into, Answer* answer) {
    OnLoop([&] {
      transport_->Receive(0, {Lane::kDense, 0, 0, chunk, 0}, {0, 0, 0}, *into,
                          answer->ForReceive());
    });
  }
  Status Receive(double seconds) {
    std::vector<std::byte> into(100);
    Answer answer;
    Ask(7, &into, &answer);
    const Status status = answer.Wait(seconds);
    if (!answer.ready.HasBeenNotified()) {
      OnLoop([&] { transport_->Close(Aborted("the test is over")); });
      answer.ready.WaitForNotification();
    }
    return status;
  }
  uint64_t Corrupt() {
    uint64_t count = 0;
    OnLoop([&] { count = transport_->Counters().corrupt_frames; });
    return count;
  }

 private:
  void OnLoop(const std::function<void()>& task) {
    const Status status = loop_.Call(
        [&] {
          task();
          return OkStatus();
        },
        Seconds(30));
    RW_CHECK(status.ok());
  }

  Loop loop_{"node"};
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<GrpcListener> listener_;
  GrpcStream* stream_ = nullptr;
  Hello hello_;
  std::unique_ptr<absl::Notification> written_;  // the last piece
  std::unique_ptr<absl::Notification> came_;
  std::vector<std::byte> heard_;
  absl::Notification gone_;
  absl::Notification called_;
  uint64_t called_number_ = 0;
  GrpcStream* called_stream_ = nullptr;
};

TEST(GrpcTransport, APieceThatLiesEndsItsSendersLinkByName) {
  const std::vector<std::vector<std::byte>> lies = {
      {},                                 // nothing at all
      Bytes({9, 1, 2, 3}),                // an unknown kind
      Bytes({2, 1, 2}),                   // half a frame
      Piece(2, Frame{.magic = 7}),        // another program's frame
      Piece(2, FrameOf(1, 0)),            // in somebody else's name
      Piece(2, FrameOf(0, 10), 11),       // longer than its frame says
      Piece(2, FrameOf(0, 1 << 30), 10),  // a first piece that is not full
      Bytes({3, 1}),                      // the rest of no message
      Piece(4, uint64_t{1000}),           // took what was never sent
      Bytes({4, 1}),                      // no number
      Piece(1, kImpostor),                // a second hello
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    Impostor impostor;
    impostor.SayHello();
    impostor.Say(lies[i]);
    const Status status = impostor.Receive(20);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << i << ": " << Message(status);
    EXPECT_NE(Message(status).find("rank 0 (host evil)"), std::string::npos) << i;
    EXPECT_EQ(impostor.Corrupt(), 1u) << i;
  }
}

TEST(GrpcTransport, AMessageWhoseLinkBreaksInItsMiddleIsAnsweredByName) {
  const size_t full = kPieceBytes - sizeof(Frame) - 1;
  for (const bool asked_before : {true, false}) {
    Impostor impostor;
    std::vector<std::byte> into(1 << 20);
    Answer answer;
    if (asked_before) impostor.Ask(0, &into, &answer);
    impostor.SayHello();
    impostor.Say(Piece(2, FrameOf(0, into.size()), full));
    impostor.Leave();
    if (!asked_before) {
      EXPECT_EQ(impostor.Receive(20).code(), StatusCode::kUnavailable);  // the break is known
      impostor.Ask(0, &into, &answer);
    }
    EXPECT_EQ(answer.Wait().code(), StatusCode::kUnavailable) << Message(answer.status);
    EXPECT_NE(Message(answer.status).find("rank 0 (host evil)"), std::string::npos)
        << Message(answer.status);
  }
}

// Who closes ends both links of a pair that called each other, and the end of one may be known
// before what was sent on the other.
TEST(GrpcTransport, WhatAPeerSentOnOneLinkArrivesThoughTheOtherHasEnded) {
  Impostor impostor;
  impostor.BeCalled();
  impostor.SayHello();
  ASSERT_EQ(impostor.LinksOtherThan(1), 2u);
  impostor.Leave();
  EXPECT_EQ(impostor.LinksOtherThan(2), 1u);
  Frame frame = FrameOf(0, 0);
  frame.chunk = 7;
  frame.checksum = Digest({});
  std::vector<std::byte> into;
  Answer answer;
  impostor.Ask(7, &into, &answer);
  impostor.SayWhereCalled(Piece(2, frame));
  EXPECT_EQ(answer.Wait(), OkStatus());
  impostor.LeaveCalled();
  EXPECT_EQ(impostor.Receive(20).code(), StatusCode::kUnavailable);
}

TEST(GrpcTransport, APeerWhoseOtherLinkStaysOpenIsGoneAllTheSame) {
  Impostor impostor;
  impostor.BeCalled();
  impostor.SayHello();
  ASSERT_EQ(impostor.LinksOtherThan(1), 2u);
  impostor.Leave();
  const Status status = impostor.Receive(20);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(status).find("rank 0 (host evil)"), std::string::npos) << Message(status);
}

TEST(GrpcTransport, AnAnnouncedSizeTakesNoMemory) {
  Impostor impostor;
  impostor.SayHello();
  const size_t full = kPieceBytes - sizeof(Frame) - 1;
  impostor.Say(Piece(2, FrameOf(0, uint64_t{1} << 50), full));  // nobody asks: beyond the stash
  EXPECT_EQ(impostor.Receive(20).code(), StatusCode::kResourceExhausted);
}

TEST(GrpcTransport, OnlyWhoKnowsTokenEpochAndBothNodesIsHeard) {
  const std::vector<std::pair<const char*, std::function<void(Hello*, std::string*)>>> wrong = {
      {"token", [](Hello*, std::string* token) { *token = "guessed"; }},
      {"job", [](Hello* hello, std::string*) { ++hello->name.job; }},
      {"epoch", [](Hello* hello, std::string*) { --hello->name.epoch; }},
      {"caller", [](Hello* hello, std::string*) { hello->name.self = 1; }},
      {"unknown caller", [](Hello* hello, std::string*) { hello->name.self = 7; }},
      {"called", [](Hello* hello, std::string*) { hello->to = 0; }},
      {"caller's number", [](Hello* hello, std::string*) { ++hello->caller; }},
      {"called's number", [](Hello* hello, std::string*) { ++hello->called; }},
  };
  for (const auto& [what, spoil] : wrong) {
    SCOPED_TRACE(what);
    Impostor stranger;
    Hello hello = stranger.hello();
    std::string token;
    spoil(&hello, &token);
    stranger.SayHello(hello, token);
    stranger.Read();
    EXPECT_TRUE(stranger.IsEnded());
  }
}

TEST(GrpcTransport, AConnectionThatDoesNotSayWhoItIsIsEnded) {
  Impostor silent;
  silent.Read();
  EXPECT_TRUE(silent.IsEnded());
}

TEST(GrpcTransport, APeerThatIsAskedAnswersAndOneThatDoesNotIsNamed) {
  FabricLimits limits;
  limits.silence_seconds = 1;
  Impostor impostor(limits);
  EXPECT_EQ(impostor.Hear([&] { impostor.SayHello(); }).at(0), std::byte{6});  // heard
  EXPECT_EQ(impostor.Hear([&] { impostor.Say(Piece(5, uint64_t{0})); }).at(0), std::byte{6});
  std::vector<std::byte> into(100);
  Answer answer;
  EXPECT_EQ(impostor.Hear([&] { impostor.Ask(0, &into, &answer); }).at(0), std::byte{5});
  EXPECT_EQ(answer.Wait().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(Message(answer.status).find("rank 0 (host evil) has not answered"), std::string::npos)
      << Message(answer.status);
}

// What streams tell of has places of its own in the mailbox of a node that others have filled.
TEST(GrpcTransport, AFullMailboxLosesNoMessage) {
  const std::vector<std::byte> payload(100, std::byte{7});
  std::vector<std::byte> into[2] = {payload, payload};
  Answer sent[2], received[2];
  World world(Kind::kGrpc, 2);
  for (uint32_t chunk : {0u, 1u}) {
    world.Run(1, [&] {
      world.transport(1)->Receive(0, {Lane::kDense, 0, 0, chunk, 0}, {0, 0, 0}, into[chunk],
                                  received[chunk].ForReceive());
    });
  }
  const auto send = [&](uint32_t chunk) {
    world.Run(0, [&] {
      world.transport(0)->Send(1, {Lane::kDense, 0, 0, chunk, 0}, {0, 0, 0}, payload,
                               sent[chunk].ForSend());
    });
    return sent[chunk].Wait();
  };
  ASSERT_TRUE(send(0).ok());
  ASSERT_TRUE(received[0].Wait().ok());  // the connection stands
  absl::Notification filled;
  ASSERT_TRUE(world.loop(1)->Post([&] { filled.WaitForNotification(); }));
  while (world.loop(1)->Post([] {})) {
  }
  EXPECT_TRUE(send(1).ok());
  absl::SleepFor(absl::Seconds(0.3));  // it arrives
  filled.Notify();
  EXPECT_TRUE(received[1].Wait(5).ok());
}

TEST(GrpcTransport, GarbageOnThePortDoesNoHarm) {
  World world(Kind::kGrpc, 2);
  const std::string& address = world.peers()[1].address;
  const int port = std::stoi(address.substr(address.find(':') + 1));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(socket_fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string garbage(10000, '\x5a');
  ASSERT_GT(send(socket_fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  std::vector<std::byte> payload(1000, std::byte{3}), into(1000);
  Answer sent, received;
  world.Run(1, [&] { world.transport(1)->Receive(0, {}, {0, 0, 0}, into, received.ForReceive()); });
  world.Run(0, [&] { world.transport(0)->Send(1, {}, {0, 0, 1000}, payload, sent.ForSend()); });
  EXPECT_TRUE(received.Wait().ok()) << Message(received.status);
  EXPECT_TRUE(sent.Wait().ok());
  EXPECT_EQ(into, payload);
  close(socket_fd);
}

// Two nodes, each with its own credentials.
Status Exchange(const GrpcOptions& lower, const GrpcOptions& upper,
                const FabricLimits& limits = {}) {
  Loop loops[2] = {Loop("lower"), Loop("upper")};
  std::unique_ptr<Fabric> fabrics[2];
  std::unique_ptr<Transport> transports[2];
  std::vector<Peer> peers;
  for (int i = 0; i < 2; ++i) {
    RW_ASSIGN_OR_RETURN(fabrics[i], MakeGrpcFabric(&loops[i], i == 0 ? lower : upper));
    peers.push_back({i, absl::StrFormat("rank %d", i), fabrics[i]->Address()});
  }
  std::vector<std::byte> payload(10, std::byte{3}), into(10);
  Answer sent, received;
  for (int i = 0; i < 2; ++i) {
    RW_RETURN_IF_ERROR(loops[i].Call(
        [&, i]() -> Status {
          RW_ASSIGN_OR_RETURN(transports[i], fabrics[i]->Connect({1, 1, i}, peers, limits));
          if (i == 0) {
            transports[0]->Send(1, {}, {0, 0, 10}, payload, sent.ForSend());
          } else {
            transports[1]->Receive(0, {}, {0, 0, 0}, into, received.ForReceive());
          }
          return OkStatus();
        },
        Seconds(30)));
  }
  const Status status = sent.Wait();
  for (int i = 0; i < 2; ++i) {
    const Status closed = loops[i].Call(
        [&, i] {
          transports[i].reset();
          fabrics[i].reset();
          return OkStatus();
        },
        Seconds(30));
    RW_CHECK(closed.ok());
  }
  EXPECT_TRUE(received.ready.HasBeenNotified());
  return status;
}

// The other end ends each stream as soon as it comes: the read and the write under way fail on two
// threads, and the stream is released between them. Its object must stay until Release has
// returned.
TEST(GrpcTransport, AStreamIsReleasedWhileItsLastWriteFails) {
  constexpr int kStreams = 300;
  std::unique_ptr<GrpcListener> far;
  Loop loop("far");
  const auto end_it = [&](uint64_t number) {
    loop.Post([&, number] {
      GrpcStream* const stream = far->Claim(number);
      stream->Start({[](std::vector<std::byte>) {}, [](bool) {}, [](std::string) {}});
      stream->Release();
    });
  };
  far = *OpenGrpcListener("127.0.0.1", {}, end_it);
  auto listener = OpenGrpcListener("127.0.0.1", {}, [](uint64_t) {});
  ASSERT_TRUE(listener.ok()) << Message(listener.status());
  for (int i = 0; i < kStreams; ++i) {
    std::atomic<bool> over = false;
    GrpcStream* const stream = (*listener)->Call(absl::StrFormat("127.0.0.1:%d", far->port()), {});
    stream->Start({[](std::vector<std::byte>) {}, [](bool) {}, [&](std::string) { over = true; }});
    stream->Read();
    stream->Write(Bytes({1, 2, 3}), {});
    const TimePoint deadline = Now() + Seconds(20);
    while (!over && Now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(over) << "stream " << i;
    stream->Release();
  }
}

GrpcOptions With(std::shared_ptr<const Credentials> credentials) {
  GrpcOptions options;
  options.credentials = std::move(credentials);
  return options;
}

TEST(GrpcTransport, CertificatesOfOneAuthorityMeet) {
  Issuer issuer;
  EXPECT_TRUE(
      Exchange(With(issuer.For(IdentityRole::kRank, 0)), With(issuer.For(IdentityRole::kRank, 1)))
          .ok());
}

TEST(GrpcTransport, WithoutTheRightCertificateNobodyIsHeard) {
  Issuer issuer, other;
  const GrpcOptions good = With(issuer.For(IdentityRole::kRank, 1));
  FabricLimits soon;
  soon.silence_seconds = soon.start_seconds = 0.5;
  const struct {
    const char* what;
    GrpcOptions options;
    bool called_too;
  } strangers[] = {
      {"plaintext", {}, true},
      {"another authority", With(other.For(IdentityRole::kRank, 0)), true},
      {"an observer", With(issuer.For(IdentityRole::kObserver, 0)), false},
      {"another job", With(issuer.For(IdentityName{"next", IdentityRole::kRank, 0})), false},
      {"expired", With(issuer.ExpiredFor(IdentityRole::kRank, 0)), false}};
  for (const auto& [what, options, called_too] : strangers) {
    for (const bool called : {false, true}) {
      if (called && !called_too) continue;
      const Status refused = called ? Exchange(good, options, soon) : Exchange(options, good, soon);
      EXPECT_EQ(refused.code(), StatusCode::kDeadlineExceeded) << what;
      EXPECT_NE(Message(refused).find("rank 1 was not heard"), std::string::npos)
          << what << ": " << Message(refused);
    }
  }
}

TEST(GrpcTransport, AMemberWithAnothersCertificateIsRefused) {
  Issuer issuer;
  const auto own = issuer.For(IdentityRole::kRank, 1);
  {
    Impostor right({}, own, issuer.For(IdentityRole::kRank, 0));
    right.Read();
    right.SayHello();
    EXPECT_FALSE(right.Heard().empty());
  }
  Impostor wrong({}, own, issuer.For(IdentityRole::kRank, 2));
  wrong.Read();
  wrong.SayHello();  // which only rank 0 can know
  EXPECT_TRUE(wrong.IsEnded());
}

}  // namespace
}  // namespace ringwood
