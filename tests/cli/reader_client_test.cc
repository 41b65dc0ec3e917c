// A reader of a job that its deployment is opening: it asks again, as it is told, within its time.
#include "client/grpc/reader_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "base/digest.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "ringwood/v1/store.grpc.pb.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

const grpc::Status kOpening(grpc::StatusCode::UNAVAILABLE, "the job mnist is opening: ask again");

// Is opening the job for so many calls.
class Deployment {
 public:
  explicit Deployment(int opening) : control_(opening), store_(opening) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&control_);
    builder.RegisterService(&store_);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  struct Control final : v1::Coordinator::Service {
    explicit Control(int opening) : left(opening) {}
    grpc::Status Pull(grpc::ServerContext*, const v1::PullRequest*,
                      v1::PullResponse* response) override {
      if (left-- > 0) return kOpening;
      response->set_step(30);
      return grpc::Status::OK;
    }
    std::atomic<int> left;
  };
  struct Parts final : v1::Store::Service {
    explicit Parts(int opening) : left(opening) {}
    grpc::Status Hold(grpc::ServerContext*, const v1::HoldRequest*,
                      grpc::ServerWriter<v1::HeldPart>* writer) override {
      if (left-- > 0) return kOpening;
      v1::CheckpointManifest manifest;
      manifest.set_step(30);
      v1::HeldPart part;
      part.set_manifest(manifest.SerializeAsString());
      part.set_checksum(Digest(std::as_bytes(std::span(part.manifest()))));
      part.set_last(true);
      writer->Write(part);
      return grpc::Status::OK;
    }
    std::atomic<int> left;
  };

  int port_ = 0;
  Control control_;
  Parts store_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(ReaderClient, AsksAgainWhileTheJobIsOpened) {
  const Deployment deployment(2);
  const auto client = MakeGrpcReaderClient(deployment.address(), Access());
  v1::PullRequest pull;
  pull.set_timeout_seconds(60);
  const auto due = client->Pull(pull);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_EQ(due->step(), 30u);
  v1::HoldRequest hold;
  hold.set_timeout_seconds(60);
  const auto held = client->Hold(hold);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->step(), 30u);
}

TEST(ReaderClient, GivesUpWhenItsTimeIsOver) {
  const Deployment deployment(1 << 30);
  const auto client = MakeGrpcReaderClient(deployment.address(), Access());
  v1::PullRequest pull;
  pull.set_timeout_seconds(0.3);
  EXPECT_THAT(Message(client->Pull(pull).status()), HasSubstr("ask again"));
  v1::HoldRequest hold;
  hold.set_timeout_seconds(0.3);
  EXPECT_THAT(Message(client->Hold(hold).status()), HasSubstr("ask again"));
}

}  // namespace
}  // namespace ringwood
