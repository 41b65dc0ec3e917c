// Whom the status is asked of: a coordinator that the store names by then; and what it says itself.
#include "cli/watch/status_asker.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "proto/server_start.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// Answers with this epoch, or with this error, and names its start.
class Answering final : public v1::Coordinator::Service {
 public:
  explicit Answering(uint64_t epoch, const grpc::Status& error = grpc::Status::OK,
                     std::string start = "")
      : epoch_(epoch), error_(error), start_(std::move(start)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Answering() override { server_->Shutdown(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest*,
                      v1::StatusResponse* response) override {
    if (!start_.empty()) context->AddTrailingMetadata(kServerStartKey, start_);
    response->set_epoch(epoch_);
    return error_;
  }

  const uint64_t epoch_;
  const grpc::Status error_;
  const std::string start_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

StatusQuestion Of(const TemporaryDirectory& store) {
  StatusQuestion question;
  question.access.store = store.path();
  question.timeout_seconds = 60;
  return question;
}

TEST(StatusAsker, FollowsTheStoreToACoordinatorThatIsStartedAgain) {
  const TemporaryDirectory store;
  auto first = std::make_unique<Answering>(1);
  store.Write("address", first->address() + "\n");
  const auto asker = StatusAsker::Open({}, Of(store));
  ASSERT_TRUE(asker.ok()) << asker.status();
  EXPECT_EQ((*asker)->Ask()->epoch(), 1u);
  first.reset();
  EXPECT_THAT(Message((*asker)->Ask().status()), HasSubstr("no coordinator answers at"));
  const Answering second(2);
  store.Write("address", second.address() + "\n");
  const auto status = (*asker)->Ask();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->epoch(), 2u);
}

TEST(StatusAsker, StaysWithACoordinatorThatTheCommandLineNames) {
  const TemporaryDirectory store;
  const Answering other(2);
  store.Write("address", other.address() + "\n");
  StatusQuestion question = Of(store);
  question.access.server = "127.0.0.1:1";
  const auto asker = StatusAsker::Open({}, question);
  ASSERT_TRUE(asker.ok()) << asker.status();
  EXPECT_THAT(Message((*asker)->Ask().status()),
              HasSubstr("no coordinator answers at 127.0.0.1:1"));
}

TEST(StatusAsker, AnotherServerAtTheAddressIsRefused) {
  const TemporaryDirectory store;
  const Answering other(2, grpc::Status::OK, "another");
  store.Write("address", other.address() + "\nmine\n");
  const auto asker = StatusAsker::Open({}, Of(store));
  ASSERT_TRUE(asker.ok()) << asker.status();
  EXPECT_THAT(Message((*asker)->Ask().status()),
              HasSubstr("the server at " + other.address() + " does not serve this store"));
  // It is the store's own by now.
  store.Write("address", other.address() + "\nanother\n");
  const auto status = (*asker)->Ask();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->epoch(), 2u);
}

TEST(StatusAsker, AnAnswerOfTheCoordinatorStandsForItself) {
  const TemporaryDirectory store;
  const std::string why = "no place for the job c: 1 jobs are open here";
  const Answering full(1, {grpc::StatusCode::RESOURCE_EXHAUSTED, why});
  store.Write("address", full.address() + "\n");
  const auto asker = StatusAsker::Open({}, Of(store));
  ASSERT_TRUE(asker.ok()) << asker.status();
  const ringwood::Status refused = (*asker)->Ask().status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(refused), "the coordinator at " + full.address() + ": " + why);
}

}  // namespace
}  // namespace ringwood
