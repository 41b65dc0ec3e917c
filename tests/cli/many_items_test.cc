// A checkpoint of many small tensors, saved and restored by a worker over loopback: every item
// comes whole, in whatever order it is asked for, and one message brings several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "client/checkpoint/restore.h"
#include "client/grpc/control.h"
#include "client/grpc/store_client.h"
#include "server/server.h"

namespace ringwood {
namespace {

constexpr int kItems = 2000;  // of each scope

std::string ItemName(int i) { return absl::StrFormat("model/layers.%04d.weight", i); }

// Of all sizes: none, small ones, one of several pieces now and then.
std::string ItemBytes(int i, bool shared) {
  const size_t bytes = i % 500 == 7 ? (2 << 20) + 1 : i % 100 == 3 ? 0 : 1 + 37 * (i % 200);
  std::string data(bytes, '\0');
  Random random(2 * i + (shared ? 1 : 0));
  for (char& byte : data) byte = static_cast<char>(random.Next());
  return data;
}

// Read where they lie, or sent.
class ManyItems : public testing::TestWithParam<bool> {
 protected:
  ManyItems() {
    std::string pattern = testing::TempDir() + "/ringwood-many-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    ServerOptions options;
    options.insecure = true;
    options.servers = 0;
    options.store = directory_ + "/store";
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const std::string address = absl::StrFormat("127.0.0.1:%d", server_->port());
    v1::JoinRequest request;
    request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    request.set_role(v1::ROLE_WORKER);
    request.set_world(1);
    request.set_host("here");
    request.set_incarnation(1);
    request.set_fabric_address("none");
    const auto joined = MakeGrpcControl(address, "")->Join(request, Seconds(60));
    EXPECT_TRUE(joined.ok()) << joined.status();
    epoch_ = joined->epoch();
    client_ = MakeGrpcStoreClient(address, "", GetParam());
    Save();
  }
  ~ManyItems() override {
    server_->Stop();
    std::filesystem::remove_all(directory_);
  }

  void Save() {
    std::vector<std::string> content;
    for (int i = 0; i < kItems; ++i) {
      for (const bool shared : {false, true}) content.push_back(ItemBytes(i, shared));
    }
    std::vector<Item> items;
    for (int i = 0; i < kItems; ++i) {
      for (const bool shared : {false, true}) {
        items.push_back({ItemName(i), shared, std::as_bytes(std::span(content[2 * i + shared]))});
      }
    }
    Arena arena(1 << 30);
    ASSERT_TRUE(arena.Fill(items, 0, 1).ok());
    const Status saved = client_->Save({epoch_, 7, 0, 1, 1}, arena, Seconds(60), [](uint64_t) {});
    ASSERT_TRUE(saved.ok()) << saved;
    ASSERT_TRUE(client_->Await({epoch_, 7}, Seconds(60)).ok());
  }

  void CheckItem(Restore* from, int i, bool shared) {
    const std::string expected = ItemBytes(i, shared);
    const auto bytes = from->Bytes(ItemName(i), shared);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_EQ(*bytes, expected.size()) << i;
    std::string data(expected.size(), '?');
    const Status read = from->Read(ItemName(i), shared, std::as_writable_bytes(std::span(data)));
    ASSERT_TRUE(read.ok()) << read;
    ASSERT_TRUE(data == expected) << i;
  }

  std::string directory_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<StoreClient> client_;
  uint64_t epoch_ = 0;
};

TEST_P(ManyItems, ComeWholeInTheOrderOfNames) {
  Restore from(client_.get(), {epoch_, 7}, 0);
  for (const bool shared : {true, false}) {
    for (int i = 0; i < kItems && !HasFatalFailure(); ++i) CheckItem(&from, i, shared);
  }
}

TEST_P(ManyItems, ComeWholeInAnyOrderAndAgain) {
  Restore from(client_.get(), {epoch_, 7}, 0);
  Random random(5);
  for (int i = 0; i < kItems && !HasFatalFailure(); ++i) {
    CheckItem(&from, static_cast<int>(random.Below(kItems)), random.Below(2) == 1);
  }
}

INSTANTIATE_TEST_SUITE_P(ByMemory, ManyItems, testing::Bool());

}  // namespace
}  // namespace ringwood
