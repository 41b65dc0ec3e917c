// A server with a token, and callers without: every call of every service is refused before it does
// anything, and what lies on the disk is of no use to them either.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <vector>

#include "proto/call.h"
#include "server/coordinator/coord_store.h"
#include "server/server.h"
#include "tests/server/worker.h"

namespace ringwood {
namespace {

constexpr char kToken[] = "the token of this job";

ServerOptions Guarded(const std::string& store = "") {
  ServerOptions options = Embedded(store);
  options.token = kToken;
  return options;
}

// "/ringwood.v1.Coordinator/Join" and all others; also of gRPC's own services, and of none.
std::vector<std::string> AllMethods() {
  std::vector<std::string> methods = {"/grpc.health.v1.Health/Check",
                                      "/grpc.reflection.v1alpha.ServerReflection/"
                                      "ServerReflectionInfo",
                                      "/ringwood.v1.Coordinator/NoSuchMethod"};
  for (const auto* file :
       {v1::JoinRequest::descriptor()->file(), v1::SaveChunk::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back("/" + file->service(s)->full_name() + "/" +
                          file->service(s)->method(m)->name());
      }
    }
  }
  return methods;
}

grpc::Status CallWith(int port, const std::string& token, const std::string& method) {
  grpc::GenericStub stub(
      OpenChannel("127.0.0.1:" + std::to_string(port), grpc::ChannelArguments(), token));
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(60)));
  const grpc::Slice nothing("");
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                 [&](grpc::Status status) { ended.set_value(status); });
  return ended.get_future().get();
}

TEST(Token, IsAskedForByEveryMethodOfEveryService) {
  auto server = Server::Start(Guarded());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::vector<std::string> methods = AllMethods();
  EXPECT_GE(methods.size(), 13u);
  for (const std::string& method : methods) {
    for (const std::string token : {"", "another", "the token of this jo"}) {
      const grpc::Status status = CallWith((*server)->port(), token, method);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
      EXPECT_NE(status.error_message().find("RINGWOOD_TOKEN"), std::string::npos)
          << method << ": " << status.error_message();
    }
  }
  // With the token the calls arrive, and are answered as what they are.
  EXPECT_TRUE(CallWith((*server)->port(), kToken, "/ringwood.v1.Coordinator/Status").ok());
  EXPECT_EQ(CallWith((*server)->port(), kToken, methods[2]).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(Token, WhoHasAnIncarnationButNoTokenEndsNothingAndSavesNothing) {
  Directory directory;
  auto server = Server::Start(Guarded(directory.path()));
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  Worker a(port, 0, 2, false, kToken), b(port, 1, 2, false, kToken);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  // The forger knows all that a member knows: its epoch, node and incarnation.
  Worker forger(port, 1, 2);
  forger.joined = b.joined;
  forger.request() = b.request();
  EXPECT_EQ(forger.Leave("forged").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(forger.Save(1'000'000'000, "forged").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  v1::Commit commit;
  EXPECT_EQ(forger.Vote(1, &commit).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  forger.Attend();  // would take the member's stream
  v1::Notice notice;
  EXPECT_FALSE(forger.Read(&notice));
  for (uint64_t round = 1; round <= 3; ++round) ExpectCommit(a, b, round);
}

std::string EverythingIn(const std::string& directory) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    if (entry.is_regular_file()) all.append(std::istreambuf_iterator<char>(file), {});
  }
  return all;
}

v1::EpochRecord RecordOf(uint64_t epoch, uint64_t incarnation) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  v1::RecordedMember* member = record.add_members();
  member->set_host("a host by which the record is found");
  member->set_incarnation(incarnation);
  return record;
}

TEST(Token, IncarnationsAreNotOnTheDisk) {
  Directory directory;
  const uint64_t incarnation = 0x6d656d6265722121;
  for (uint64_t epoch = 1; epoch <= 2; ++epoch) {
    auto store = OpenCoordStore(directory.path(), kToken);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Save(RecordOf(epoch, incarnation)).ok());
    const std::string all = EverythingIn(directory.path());
    EXPECT_NE(all.find("a host by which the record is found"), std::string::npos);
    EXPECT_EQ(all.find(std::string(reinterpret_cast<const char*>(&incarnation), 8)),
              std::string::npos);
  }
  // Enough to compare with: the same for the same key and process only.
  std::vector<std::string> hashes;
  uint64_t epoch = 2;
  for (const auto& [key, who] : std::vector<std::pair<std::string, uint64_t>>{
           {kToken, incarnation}, {kToken, incarnation}, {kToken, 7}, {"another", incarnation}}) {
    auto store = OpenCoordStore(directory.path(), key);
    ASSERT_TRUE((*store)->Save(RecordOf(++epoch, who)).ok());
    store->reset();
    auto again = OpenCoordStore(directory.path(), key);
    ASSERT_TRUE(again.ok()) << again.status();
    auto record = (*again)->Load();
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->members(0).incarnation(), 0u);
    hashes.push_back(record->members(0).incarnation_hash());
  }
  EXPECT_EQ(hashes[0].size(), 32u);
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
  EXPECT_NE(hashes[0], hashes[3]);
}

}  // namespace
}  // namespace ringwood
