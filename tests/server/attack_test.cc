// What a stranger on the machine can do to a server that asks for no token: connect, open streams,
// wait and go away, join as somebody else. Each is refused or bounded, and a job runs meanwhile.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "server/calls/front_door.h"
#include "server/coordinator/membership.h"
#include "server/server.h"
#include "tests/server/peers/worker.h"

namespace ringwood {
namespace {

constexpr int kDeadlineSeconds = 120;  // of a test that would hang; nothing is timed by it

std::shared_ptr<grpc::Channel> Stranger(int port) {
  return OpenChannel("127.0.0.1:" + std::to_string(port), OwnConnection().Arguments(), "");
}

void RunAStep(int port) {
  Worker a(port, 0, 2), b(port, 1, 2);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);
  EXPECT_TRUE(a.Leave().ok());
  EXPECT_TRUE(b.Leave().ok());
}

// An Attend stream without a beat.
class Bare : public grpc::ClientBidiReactor<v1::Beat, v1::Notice> {
 public:
  Bare(v1::Coordinator::Stub* stub, std::atomic<int>* open) : open_(open) {
    stub->async()->Attend(&context_, this);
    StartRead(&notice_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Wait() {
    EXPECT_TRUE(done_.WaitForNotificationWithTimeout(absl::Seconds(kDeadlineSeconds)));
    return status_;
  }

 private:
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    --*open_;
    done_.Notify();
  }

  std::atomic<int>* const open_;
  grpc::ClientContext context_;
  v1::Notice notice_;
  grpc::Status status_;
  absl::Notification done_;
};

TEST(Attack, StreamsWithoutABeatLockNobodyOutAndEnd) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  constexpr int kConnections = 24, kStreams = 250;
  std::atomic<int> open{kConnections * kStreams};
  std::vector<std::unique_ptr<v1::Coordinator::Stub>> stubs;
  std::list<Bare> streams;
  for (int c = 0; c < kConnections; ++c) {
    stubs.push_back(v1::Coordinator::NewStub(Stranger((*server)->port())));
    for (int s = 0; s < kStreams; ++s) streams.emplace_back(stubs.back().get(), &open);
  }
  RunAStep((*server)->port());
  std::printf("%d streams opened, %d open after the job's step\n", kConnections * kStreams,
              open.load());
  for (Bare& stream : streams) EXPECT_FALSE(stream.Wait().ok());
  EXPECT_EQ(open, 0);
}

TEST(Attack, WaitsThatWereGivenUpLeaveRoomForOthers) {
  Directory directory;
  auto server = Server::Start(Embedded(directory.path()));
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::Store::NewStub(Stranger((*server)->port()));
  constexpr int kWaits = 9000;  // more than may wait at once
  for (int i = 0; i < kWaits; ++i) {
    grpc::ClientContext context;
    v1::AwaitRequest request;
    request.set_step(7);
    request.set_timeout_seconds(3600);
    v1::AwaitResponse response;
    absl::Notification done;
    stub->async()->Await(&context, &request, &response, [&](grpc::Status) { done.Notify(); });
    context.TryCancel();
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(kDeadlineSeconds)));
  }
  Worker last((*server)->port(), 0, 1);
  EXPECT_EQ(last.Await(7, 0.2).reason(), "not all ranks' stripes are there yet");
}

// A request that could wait, and 4 MiB of which the server knows nothing.
template <typename Request>
Request Padded() {
  Request request;
  Request::GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string((4 << 20) - 1000, 'x'));
  return request;
}

TEST(Attack, WhatWaitsIsSmall) {
  Directory directory;
  auto server = Server::Start(Embedded(directory.path()));
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = Stranger((*server)->port());
  const auto coordinator = v1::Coordinator::NewStub(channel);
  const auto store = v1::Store::NewStub(channel);
  const auto expect_refused = [](auto call) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(Seconds(kDeadlineSeconds)));
    const grpc::Status status = call(&context);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_NE(status.error_message().find("at most 65536"), std::string::npos);
  };
  expect_refused([&](auto* context) {
    v1::JoinResponse response;
    auto request = Padded<v1::JoinRequest>();
    request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    request.set_role(v1::ROLE_WORKER);
    request.set_world(2);
    return coordinator->Join(context, request, &response);
  });
  expect_refused([&](auto* context) {
    v1::PullResponse response;
    return coordinator->Pull(context, Padded<v1::PullRequest>(), &response);
  });
  expect_refused([&](auto* context) {
    v1::AwaitResponse response;
    return store->Await(context, Padded<v1::AwaitRequest>(), &response);
  });
  expect_refused(
      [&](auto* context) { return store->Hold(context, Padded<v1::HoldRequest>())->Finish(); });
  expect_refused(
      [&](auto* context) { return store->Load(context, Padded<v1::LoadRequest>())->Finish(); });
}

TEST(Attack, AStrangerIsNotTakenForTheServersOwnReducer) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::Coordinator::NewStub(Stranger((*server)->port()));
  v1::JoinRequest request;
  request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request.set_role(v1::ROLE_REDUCER);
  request.set_host("elsewhere");
  request.set_incarnation(7);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(kDeadlineSeconds)));
  v1::JoinResponse response;
  const grpc::Status status = stub->Join(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS) << status.error_message();
  EXPECT_NE(status.error_message().find("--reducer-index"), std::string::npos);
  RunAStep((*server)->port());
  EXPECT_EQ((*server)->Wait(Duration::zero()).code(), StatusCode::kDeadlineExceeded);
}

TEST(Attack, StatusTellsNoAddresses) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  JoinBoth(a, b);
  const v1::StatusResponse status = a.Status();
  ASSERT_EQ(status.members_size(), 3);
  EXPECT_FALSE(a.joined.members(1).fabric_address().empty());
  for (const v1::Member& member : status.members()) EXPECT_TRUE(member.fabric_address().empty());
}

TEST(Attack, RefusedJoinsNeitherFloodTheLogNorForgeItsLines) {
  Membership membership(MembershipOptions{}, v1::EpochRecord());
  TimePoint now{};
  size_t lines = 0, bytes = 0;
  const auto join = [&](const std::string& host) {
    v1::JoinRequest request;
    request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    request.set_role(v1::ROLE_WORKER);
    request.set_rank(5);
    request.set_world(2);  // refused
    request.set_incarnation(1);
    request.set_host(host);
    for (const Action& action : membership.On(event::Join{1, request, 1}, now)) {
      const auto* report = std::get_if<action::Report>(&action);
      const auto* reply = std::get_if<action::Reply>(&action);
      const std::string text = report ? report->text : Message(std::get<Status>(reply->answer));
      for (const unsigned char c : text) ASSERT_TRUE(c >= 0x20 && c != 0x7F);
      if (report) ++lines, bytes += text.size();
    }
  };
  join("h\nE server: everything is lost\x1b[2J");
  for (int i = 0; i < 1000; ++i) join(std::string(4 << 20, i % 2 ? 'x' : '\x1b'));
  std::printf("1001 joins with host names of 4 MiB: %zu lines, %zu bytes in the log\n", lines,
              bytes);
  EXPECT_LE(lines, 8u);
  EXPECT_LE(bytes, 8u * 2200);
  now += Seconds(60);
  join("h");
  EXPECT_GT(lines, 8u);  // how many more there were, and this one
}

int Connect(int port) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  return client;
}

// What a door took; closes it at the end.
class Taken {
 public:
  ~Taken() {
    for (int connection : connections_) close(connection);
  }
  void Add(int connection) {
    absl::MutexLock lock(&mutex_);
    connections_.push_back(connection);
  }
  bool WaitFor(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&] { return connections_.size() >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(kDeadlineSeconds));
  }
  size_t size() {
    absl::MutexLock lock(&mutex_);
    return connections_.size();
  }

 private:
  absl::Mutex mutex_;
  std::vector<int> connections_;
};

TEST(FrontDoor, LeavesDescriptorsForTheRestOfTheProcess) {
  Taken taken;
  const int next = dup(0);  // the lowest free number
  close(next);
  const int most = RaiseDescriptorLimit();
  constexpr int kRoom = 12;  // connections of ours and of it
  auto door = FrontDoor::Open("127.0.0.1:0", {Seconds(5), most - next - kRoom});
  ASSERT_TRUE(door.ok()) << door.status();
  ASSERT_TRUE((*door)->Listen().ok());
  (*door)->Begin([&](int connection) { taken.Add(connection); });
  std::vector<int> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect((*door)->port()));
  ASSERT_TRUE(taken.WaitFor(3));
  for (int i = 0; i < 12; ++i) clients.push_back(Connect((*door)->port()));
  char byte;
  EXPECT_EQ(read(clients.back(), &byte, 1), 0) << "a connection beyond the room stays open";
  EXPECT_LE(taken.size(), static_cast<size_t>(kRoom));
  for (int client : clients) close(client);
  const size_t before = taken.size();
  const int again = Connect((*door)->port());
  EXPECT_TRUE(taken.WaitFor(before + 1)) << "the room that became free is not used";
  close(again);
}

// Standard error in a pipe, until it ends.
class Heard {
 public:
  Heard() : kept_(dup(2)) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    dup2(ends_[1], 2);
  }
  ~Heard() {
    dup2(kept_, 2);
    for (int descriptor : {kept_, ends_[0], ends_[1]}) close(descriptor);
  }
  std::string Line() {  // the next
    std::string line;
    for (char c = 0; c != '\n' && read(ends_[0], &c, 1) == 1;) line += c;
    return line;
  }

 private:
  const int kept_;
  int ends_[2];
};

TEST(FrontDoor, RecoversWhenDescriptorsAreFreeAgain) {
  Taken taken;
  auto door = FrontDoor::Open("127.0.0.1:0", FrontDoorOptions());
  ASSERT_TRUE(door.ok()) << door.status();
  ASSERT_TRUE((*door)->Listen().ok());
  const int client = Connect((*door)->port());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  {
    Heard heard;
    const int next = dup(0);
    close(next);
    rlimit none = before;
    none.rlim_cur = static_cast<rlim_t>(next);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    (*door)->Begin([&](int connection) { taken.Add(connection); });
    const std::string line = heard.Line();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_NE(line.find("Too many open files"), std::string::npos) << line;
    EXPECT_EQ(taken.size(), 0u);
  }
  EXPECT_TRUE(taken.WaitFor(1));
  close(client);
}

}  // namespace
}  // namespace ringwood
