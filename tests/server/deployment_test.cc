// Many jobs on one server, each by its token: they have nothing of each other, and what one of them
// does to its limits the others do not notice.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "proto/call.h"
#include "proto/job_token.h"
#include "ringwood/v1/deployment.grpc.pb.h"
#include "server/calls/call_rights.h"
#include "server/known_jobs.h"
#include "server/server.h"
#include "tests/server/peers/worker.h"
#include "tests/server/simulation/bare_call.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

const std::string kSecret = "the secret of a deployment";

ServerOptions Many(const std::string& store = "") {
  ServerOptions options = Embedded(store);
  options.token = kSecret;
  options.jobs = 4;
  return options;
}

std::string TokenOf(const std::string& job) { return JobSecret(kSecret, job); }

// A condition that comes true by itself.
void Await(const std::function<bool()>& condition) {
  const TimePoint end = Now() + Seconds(60);
  while (!condition()) {
    ASSERT_LT(Now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class Jobs {
 public:
  explicit Jobs(int port) : port_(port) {}

  v1::JobsResponse All(const std::string& token = kSecret) const {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(Seconds(30)));
    v1::JobsResponse response;
    const grpc::Status status =
        v1::Deployment::NewStub(Channel(token))->Jobs(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::DeployedJob Of(const std::string& job) const {
    const v1::JobsResponse all = All();
    for (const v1::DeployedJob& each : all.jobs()) {
      if (each.name() == job) return each;
    }
    return {};
  }
  // As ranks do it: asks again where the job is being opened or closed.
  grpc::Status Open(const std::string& job) const {
    const auto stub = v1::Coordinator::NewStub(Channel(TokenOf(job)));
    for (;;) {
      grpc::ClientContext context;
      context.set_deadline(DeadlineIn(Seconds(30)));
      v1::StatusResponse response;
      const grpc::Status status = stub->Status(&context, {}, &response);
      if (!AsksAgain(status)) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  std::shared_ptr<grpc::Channel> Channel(const std::string& token) const {
    return OpenChannel("127.0.0.1:" + std::to_string(port_), grpc::ChannelArguments(), token);
  }
  const int port_;
};

// Two ranks of a job that is open.
struct TwoRanks {
  TwoRanks(int port, const std::string& job, bool resume = false)
      : a(port, 0, 2, resume, TokenOf(job)), b(port, 1, 2, resume, TokenOf(job)) {
    EXPECT_TRUE(Jobs(port).Open(job).ok());
    auto [first, second] = Both(a, b, [](Worker& worker) { return worker.Join(); });
    EXPECT_TRUE(first.ok() && second.ok()) << first.error_message() << second.error_message();
    a.Attend();
    b.Attend();
    AgreeBoth(a, b);
  }
  Worker a, b;
};

TEST(Deployment, TwoJobsGoOnBesideEachOther) {
  auto server = Server::Start(Many());
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  TwoRanks one(port, "one"), two(port, "two");
  EXPECT_NE(one.a.joined.job(), two.a.joined.job());
  EXPECT_NE(one.a.joined.fabric_key(), two.a.joined.fabric_key());
  for (uint64_t round = 1; round <= 3; ++round) ExpectCommit(one.a, one.b, round);
  ExpectCommit(two.a, two.b, 1);
  EXPECT_EQ(one.a.Status().step(), 3u);
  EXPECT_EQ(two.a.Status().step(), 1u);
  // One's rank dies: the other job hears nothing of it.
  one.b.StopAttending();
  EXPECT_EQ(one.a.Failure().who(), "rank 1 (host test)");
  for (uint64_t round = 2; round <= 5; ++round) ExpectCommit(two.a, two.b, round);
  EXPECT_EQ(two.a.joined.epoch(), 1u);
}

TEST(Deployment, AJobsTokenOpensNoOtherAndTheDeploymentsNone) {
  auto server = Server::Start(Many());
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  TwoRanks one(port, "one");
  EXPECT_TRUE(Jobs(port).Open("two").ok());
  // With all that a member of "one" knows, and the token of "two".
  Worker forger(port, 1, 2, false, TokenOf("two"));
  forger.joined = one.b.joined;
  forger.request() = one.b.request();
  v1::Commit commit;
  EXPECT_FALSE(forger.Vote(1, &commit).ok());
  ExpectCommit(one.a, one.b, 1);

  Worker nobody(port, 0, 1, false, kSecret);
  const grpc::Status refused = nobody.Join();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("the call Coordinator.Join is one of a job"));
  EXPECT_THAT(refused.error_message(), HasSubstr("ringwood token job NAME"));
  Worker forged(port, 0, 1, false, "one" + TokenOf("two").substr(3));
  EXPECT_THAT(forged.Join().error_message(), HasSubstr("wrong token"));

  // Who asks for jobs with a job's token sees that one.
  EXPECT_EQ(Jobs(port).All().jobs_size(), 2);
  const v1::JobsResponse own = Jobs(port).All(TokenOf("one"));
  ASSERT_EQ(own.jobs_size(), 1);
  EXPECT_EQ(own.jobs(0).name(), "one");
  EXPECT_EQ(own.most_jobs(), 0u) << "which others there are is not told";
}

TEST(Deployment, AJobThatMakesTooManyCallsIsSlowedAndOthersAreNot) {
  ServerOptions options = Many();
  options.job_limits["busy"].calls_per_second = 4;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  TwoRanks calm(port, "calm"), busy(port, "busy");
  uint64_t rounds = 0;  // as many as are faster than its calls may be
  Await([&] {
    ExpectCommit(busy.a, busy.b, ++rounds);
    return Jobs(port).Of("busy").delayed_calls() > 0;
  });
  EXPECT_EQ(Jobs(port).Of("busy").refused_calls(), 0u);
  for (uint64_t round = 1; round <= 30; ++round) ExpectCommit(calm.a, calm.b, round);
  EXPECT_EQ(Jobs(port).Of("calm").delayed_calls(), 0u);
}

TEST(Deployment, AFloodOfCallsIsRefusedByName) {
  ServerOptions options = Many();
  options.job_limits["flood"].calls_per_second = 1;
  options.job_limits["flood"].open_calls = 2;  // as many as go at once
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  ASSERT_TRUE(Jobs(port).Open("flood").ok());
  grpc::Status refused;
  absl::Mutex mutex;
  const auto flood = [&] {
    Await([&] {
      const grpc::Status answer = Jobs(port).Open("flood");
      absl::MutexLock lock(&mutex);
      if (!answer.ok()) refused = answer;
      return !refused.ok();
    });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(flood);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("2 calls of the job flood wait for their turn"));
  EXPECT_GT(Jobs(port).Of("flood").refused_calls(), 0u);
}

TEST(Deployment, CallsThatWaitForTheirTurnDoNotHoldItsEndUp) {
  ServerOptions options = Many();
  options.job_limits["flood"].calls_per_second = 0.001;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  ASSERT_TRUE(Jobs(port).Open("flood").ok());
  std::thread waits([port] { EXPECT_FALSE(Jobs(port).Open("flood").ok()); });
  Await([port] { return Jobs(port).Of("flood").delayed_calls() > 0; });
  (*server)->Stop();
  waits.join();
}

TEST(Deployment, AJobsStoreHasItsQuotaAndItsFolder) {
  Directory directory;
  ServerOptions options = Many(directory.path() + "/store");
  options.job_limits["small"].store_bytes = 1;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  TwoRanks small(port, "small"), large(port, "large");
  for (TwoRanks* job : {&small, &large}) {
    ExpectCommit(job->a, job->b, 1);
    auto [first, second] =
        Both(job->a, job->b, [](Worker& worker) { return worker.Save(1, "sixteen weights!"); });
    const bool fits = job == &large;
    EXPECT_EQ(first.ok() && second.ok(), fits);
    if (fits) continue;
    const grpc::Status& refused = first.ok() ? second : first;
    EXPECT_THAT(first.error_message() + second.error_message(), HasSubstr("store"));
    EXPECT_FALSE(refused.ok());
  }
  EXPECT_TRUE(large.a.Await(1, 30).complete());
  EXPECT_FALSE(small.a.Await(1, 30).complete());
  ExpectCommit(small.a, small.b, 2);  // as on a full disk, training goes on
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/store/jobs/large/checkpoints"));
}

TEST(Deployment, AnIdleJobIsClosedAndOpenedAgainWithWhatItHad) {
  Directory directory;
  ServerOptions options = Many(directory.path() + "/store");
  options.job_idle_seconds = 2;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  {
    TwoRanks job(port, "job");
    ExpectCommit(job.a, job.b, 1);
    auto [first, second] =
        Both(job.a, job.b, [](Worker& worker) { return worker.Save(1, "sixteen weights!"); });
    ASSERT_TRUE(first.ok() && second.ok()) << first.error_message() << second.error_message();
    ASSERT_TRUE(job.a.Await(1, 30).complete());
  }
  Await([&] { return Jobs(port).All().jobs_size() == 0; });
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/store/jobs/job/address"));
  TwoRanks again(port, "job", true);
  EXPECT_EQ(again.a.joined.base_step(), 1u);
}

TEST(Deployment, NoMoreJobsThanItTakesAreOpenAndIdleOnesMakeRoom) {
  ServerOptions options = Many();
  options.jobs = 2;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  TwoRanks one(port, "one");
  auto two = std::make_unique<TwoRanks>(port, "two");
  const grpc::Status refused = Jobs(port).Open("three");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("no place for the job three"));
  two.reset();
  Await([&] { return Jobs(port).Open("three").ok(); });
  EXPECT_EQ(Jobs(port).Of("two").name(), "");
  ExpectCommit(one.a, one.b, 1);
}

TEST(Deployment, AStoreThatIsNoneBreaksItsJobAlone) {
  Directory directory;
  std::filesystem::create_directories(directory.path() + "/store/jobs/broken");
  std::ofstream(directory.path() + "/store/jobs/broken/something") << "else";
  auto server = Server::Start(Many(directory.path() + "/store"));
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  const grpc::Status refused = Jobs(port).Open("broken");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.error_message(), HasSubstr("the job broken cannot be opened"));
  EXPECT_EQ(Jobs(port).Of("broken").phase(), "broken");
  TwoRanks whole(port, "whole");
  ExpectCommit(whole.a, whole.b, 1);
}

TEST(Deployment, OneAtATimeHasAStore) {
  Directory directory;
  const std::string store = directory.path() + "/store";
  auto server = Server::Start(Many(store));
  ASSERT_TRUE(server.ok()) << server.status();
  const Status second = Server::Start(Many(store)).status();
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition) << second;
  EXPECT_THAT(Message(second), HasSubstr("is in use by another process"));
  EXPECT_TRUE(std::filesystem::exists(store + "/address")) << "the first one's";
  (*server)->Stop();
  EXPECT_FALSE(std::filesystem::exists(store + "/address"));
  EXPECT_TRUE(Server::Start(Many(store)).ok());
}

TEST(Deployment, WhatAnotherServerHasLeftStays) {
  Directory directory;
  const std::string store = directory.path() + "/store";
  auto server = Server::Start(Many(store));
  ASSERT_TRUE(server.ok()) << server.status();
  std::ofstream(store + "/address") << "127.0.0.1:1";
  (*server)->Stop();
  EXPECT_TRUE(std::filesystem::exists(store + "/address"));
  EXPECT_TRUE(std::filesystem::exists(store + "/token"));
}

TEST(Deployment, ItsFolderIsItsUsersAlone) {
  namespace fs = std::filesystem;
  Directory directory;
  const std::string open = directory.path() + "/open", foreign = directory.path() + "/foreign";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  ASSERT_TRUE(Server::Start(Many(open)).ok());
  EXPECT_EQ(fs::status(open).permissions(), fs::perms::owner_all);
  fs::permissions(open, fs::perms::all);
  EXPECT_THAT(Message(Server::Start(Many(open)).status()), HasSubstr("can be written to by other"));
  fs::create_directory(foreign);
  std::ofstream(foreign + "/thesis.tex") << "x";
  EXPECT_THAT(Message(Server::Start(Many(foreign)).status()), HasSubstr("has other files"));
}

TEST(Deployment, EveryCallOfAJobIsAskedForAJobsToken) {
  auto server = Server::Start(Many());
  ASSERT_TRUE(server.ok()) << server.status();
  for (const CallRight& right : CallRights()) {
    if (right.method.rfind("/ringwood.v1.", 0) != 0) continue;
    const bool of_all = CallName(right.method) == "Deployment.Jobs";
    for (const std::string& token : {std::string(), std::string("x"), kSecret}) {
      const grpc::Status status = CallAt((*server)->port(), token, std::string(right.method));
      const bool open = of_all && token == kSecret;
      EXPECT_EQ(status.error_code(),
                open ? grpc::StatusCode::OK : grpc::StatusCode::PERMISSION_DENIED)
          << right.method << ": " << status.error_message();
    }
  }
}

// What is told of the jobs, from the register and from the last look at each.
v1::StatusResponse TrainsWith(int ranks, uint64_t step) {
  v1::StatusResponse status;
  status.set_phase("training");
  status.set_step(step);
  for (int i = 0; i < ranks; ++i) status.add_members()->set_role(v1::ROLE_WORKER);
  status.add_members()->set_role(v1::ROLE_REDUCER);
  return status;
}

// Of two jobs, "one" is open and "two" is being opened.
JobRegister OneOpen() {
  JobRegister jobs(JobRegister::Options{.most_jobs = 4,
                                        .idle_seconds = 60,
                                        .limits = {.store_bytes = 1000},
                                        .own_limits = {{"two", {.store_bytes = 2000}}}});
  const TimePoint now = Now();
  jobs.Call("one", false, now);
  jobs.Opened("one", OkStatus(), now);
  jobs.Call("two", false, now);
  return jobs;
}

TEST(KnownJobs, AreDescribedWithWhatTheRegisterAndTheLastLookSay) {
  const JobRegister jobs = OneOpen();
  KnownJobs known;
  known.Saw("one", TrainsWith(3, 7), 500);
  const v1::JobsResponse all = known.Describe(jobs, "", Now());
  ASSERT_EQ(all.jobs_size(), 2);
  EXPECT_EQ(all.jobs(0).name(), "one");
  EXPECT_EQ(all.jobs(0).phase(), "open");
  EXPECT_EQ(all.jobs(0).state(), "training");
  EXPECT_EQ(all.jobs(0).step(), 7u);
  EXPECT_EQ(all.jobs(0).ranks(), 3u) << "reducers are none";
  EXPECT_EQ(all.jobs(0).store_bytes(), 500u);
  EXPECT_EQ(all.jobs(0).max_store_bytes(), 1000u);
  EXPECT_EQ(all.jobs(1).name(), "two");
  EXPECT_EQ(all.jobs(1).phase(), "opening");
  EXPECT_EQ(all.jobs(1).state(), "") << "nobody has looked at it";
  EXPECT_EQ(all.jobs(1).max_store_bytes(), 2000u);
}

TEST(KnownJobs, AJobThatHasFailedHasNoRanks) {
  v1::StatusResponse status = TrainsWith(3, 7);
  status.set_phase("failed");
  KnownJobs known;
  known.Saw("one", status, 0);
  EXPECT_EQ(known.Describe(OneOpen(), "one", Now()).jobs(0).ranks(), 0u);
}

TEST(KnownJobs, WhoAsksForOneJobHearsOfNoOther) {
  const JobRegister jobs = OneOpen();
  const v1::JobsResponse two = KnownJobs().Describe(jobs, "two", Now());
  ASSERT_EQ(two.jobs_size(), 1);
  EXPECT_EQ(two.jobs(0).name(), "two");
  EXPECT_EQ(KnownJobs().Describe(jobs, "three", Now()).jobs_size(), 0);
}

TEST(KnownJobs, ALookThatFailsOrDoesNotMeasureLeavesWhatWasKnown) {
  const JobRegister jobs = OneOpen();
  KnownJobs known;
  known.Saw("one", TrainsWith(1, 7), 500);
  known.Saw("one", TimedOut("busy"), 600);
  known.Saw("one", TimedOut("busy"), std::nullopt);
  const v1::JobsResponse all = known.Describe(jobs, "one", Now());
  EXPECT_EQ(all.jobs(0).step(), 7u);
  EXPECT_EQ(all.jobs(0).store_bytes(), 600u);
}

TEST(KnownJobs, TheFirstLookAtAJobAndAFailureAreNews) {
  KnownJobs known;
  v1::StatusResponse status = TrainsWith(1, 7);
  EXPECT_TRUE(known.IsNews("one", status));
  known.Saw("one", status, 0);
  EXPECT_FALSE(known.IsNews("one", status));
  EXPECT_FALSE(known.IsNews("one", TimedOut("busy")));
  status.set_last_failure("rank 0: its store is full");
  EXPECT_TRUE(known.IsNews("one", status));
  known.Saw("one", status, 0);
  EXPECT_FALSE(known.IsNews("one", status));
}

TEST(KnownJobs, OnlyOpenJobsShowTheirStatusWhichHasTheirName) {
  const JobRegister jobs = OneOpen();
  KnownJobs known;
  known.Saw("one", TrainsWith(1, 7), 0);
  known.Saw("two", TrainsWith(1, 8), 0);
  ASSERT_EQ(known.Statuses(jobs).size(), 1u);
  EXPECT_EQ(known.Statuses(jobs)[0].name(), "one");
  known.Forget("one");
  EXPECT_TRUE(known.Statuses(jobs).empty());
}

}  // namespace
}  // namespace ringwood
