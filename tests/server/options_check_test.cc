// What a server refuses before it opens anything, and where it lets itself be told to listen.
#include "server/options_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/job_token.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

const std::string kJobsSecret = "the secret of many jobs";
constexpr StatusCode kBad = StatusCode::kInvalidArgument;
constexpr StatusCode kUnsafe = StatusCode::kPermissionDenied;

struct OptionsRow {
  std::function<void(ServerOptions*)> ask;
  StatusCode code = StatusCode::kOk;
  std::vector<std::string> says = {};
};

void Check(const ServerOptions& options, const std::vector<OptionsRow>& table) {
  for (size_t row = 0; row < table.size(); ++row) {
    ServerOptions asked = options;
    table[row].ask(&asked);
    const Status status = CheckServerOptions(asked);
    EXPECT_EQ(status.code(), table[row].code) << "row " << row << ": " << status;
    for (const std::string& text : table[row].says) EXPECT_THAT(Message(status), HasSubstr(text));
  }
}

ServerOptions ManyJobs() {
  ServerOptions options;
  options.token = kJobsSecret;
  options.jobs = 4;
  return options;
}

std::unique_ptr<Fabric> Unchanged(std::unique_ptr<Fabric> fabric) { return fabric; }

TEST(ServerOptions, NumbersHaveBoundsWhichAreNamed) {
  Check({}, {
                {[](auto* it) {}},
                {[](auto* it) { it->servers = 0; }},
                {[](auto* it) { it->servers = 256; }},
                {[](auto* it) { it->servers = 257; }, kBad, {"--servers 257: 0 to 256"}},
                {[](auto* it) { it->servers = -1; }, kBad, {"--servers -1"}},
                {[](auto* it) { it->failure_timeout_seconds = 0.5; }},
                {[](auto* it) { it->failure_timeout_seconds = 0.4; },
                 kBad,
                 {"--failure-timeout 0.4: 0.5 to 3600"}},
                {[](auto* it) { it->failure_timeout_seconds = 3601; }, kBad},
                {[](auto* it) { it->join_timeout_seconds = 0; }, kBad, {"--join-timeout"}},
                {[](auto* it) { it->stall_timeout_seconds = -1; }, kBad, {"--stall-timeout"}},
                {[](auto* it) { it->min_world = 4096; }},
                {[](auto* it) { it->min_world = 4097; }, kBad, {"--min-np 4097: 1 to 4096"}},
                {[](auto* it) { it->min_world = 0; }, kBad, {"--min-np 0"}},
                {[](auto* it) { it->min_world = it->max_world = 3; }},
                {[](auto* it) { it->min_world = 1 + (it->max_world = 3); },
                 kBad,
                 {"--min-np 4: 1 to 3 (--max-np)"}},
            });
}

TEST(ServerOptions, OnlyAnElasticJobHasAGraceForStragglers) {
  ServerOptions elastic;
  elastic.elastic = true;
  Check(elastic,
        {
            {[](auto* it) { it->straggler_grace_seconds = 0.1; }},
            {[](auto* it) { it->straggler_grace_seconds = 3600; }},
            {[](auto* it) { it->straggler_grace_seconds = 0.05; }, kBad, {"0, or 0.1 to 3600"}},
            {[](auto* it) { it->straggler_grace_seconds = -1; }, kBad, {"--straggler-grace -1"}},
            {[](auto* it) { it->straggler_grace_seconds = 1, it->elastic = false; },
             kBad,
             {"--straggler-grace", "--elastic"}},
        });
}

TEST(ServerOptions, ThePageBelongsToTheServerThatCoordinates) {
  Check({}, {
                {[](auto* it) { it->http = "127.0.0.1:0"; }},
                {[](auto* it) { it->http_tls = "/page"; }, kBad, {"--http-tls", "with --http"}},
                {[](auto* it) { it->http = it->coordinator = "127.0.0.1:1"; },
                 kBad,
                 {"--http belongs to"}},
            });
}

TEST(ServerOptions, EtcdIsReachedUnderTlsOrOverANetworkThatIsPrivate) {
  Check({}, {
                {[](auto* it) { it->coord_store = "etcd://127.0.0.1:1/a"; }},
                {[](auto* it) { it->coord_store = "etcd://10.0.0.1:1/a"; },
                 kUnsafe,
                 {"--coord-store etcd://10.0.0.1:1/a", "etcds://", "--trusted-fabric"}},
                {[](auto* it) {
                  it->coord_store = "etcd://10.0.0.1:1/a";
                  it->trusted_fabric = true;
                }},
                {[](auto* it) { it->coord_store = "nonsense"; }, kBad},
                {[](auto* it) { it->etcd_tls = "/etcd"; }, kBad, {"--etcd-tls belongs to"}},
                {[](auto* it) {
                   it->coord_store = "etcd://127.0.0.1:1/a";
                   it->coordinator = "127.0.0.1:1";
                 },
                 kBad,
                 {"--coord-store belongs to", "--coordinator"}},
            });
}

TEST(ServerOptions, ADeploymentNeedsASecretAndNamesOfJobs) {
  Check(ManyJobs(),
        {
            {[](auto* it) {}},
            {[](auto* it) { it->jobs = 256; }},
            {[](auto* it) { it->jobs = 257; }, kBad, {"--jobs 257: 1 to 256"}},
            {[](auto* it) { it->jobs = -1; }, kBad, {"--jobs -1"}},
            {[](auto* it) { it->token = ""; }, kUnsafe, {"--jobs", "--token-file"}},
            {[](auto* it) { it->token = JobSecret(kJobsSecret, "one"); }, kUnsafe},
            {[](auto* it) { it->token = IssueToken(kJobsSecret, kRankRole, 0, 1); }, kUnsafe},
            {[](auto* it) { it->job_limits["a"] = {}; }},
            {[](auto* it) { it->job_limits["a/b"] = {}; }, kBad, {"--job-limits: \"a/b\""}},
            {[](auto* it) { it->job_limits["a"] = {}, it->jobs = 0; }, kBad, {"--jobs too"}},
        });
}

TEST(ServerOptions, WhatADeploymentHasNotIsNamedWithWhatToDo) {
  const std::string instead = "a server of its own";
  Check(ManyJobs(),
        {
            {[](auto* it) { it->store = "/store"; }},
            {[](auto* it) { it->coordinator = "127.0.0.1:1"; }},
            {[](auto* it) { it->update_log = "on"; }, kBad, {"--update-log", "the job", instead}},
            {[](auto* it) { it->coord_store = "etcd://127.0.0.1:1/a"; },
             kBad,
             {"--coord-store", "the job", instead}},
            {[](auto* it) { it->store = "/store", it->coordinator = "127.0.0.1:1"; },
             kBad,
             {"--store", "the job", "servers of its own"}},
            {[](auto* it) { it->watched = Unchanged; }, kBad, {"--timeline", "the job", instead}},
        });
}

TEST(ServerOptions, ThePageOffLoopbackNeedsATokenAndACertificate) {
  ServerOptions options;
  options.http = "10.0.0.1:80";
  EXPECT_THAT(Message(ChooseHttp(options).status()), HasSubstr("--http-tls"));
  options.http_tls = "/page";
  EXPECT_THAT(Message(ChooseHttp(options).status()), HasSubstr("the job has no token"));
  options.token = "a token";
  EXPECT_EQ(ChooseHttp(options).value(), "10.0.0.1:80");
  options = {};
  options.http = "localhost:80";
  EXPECT_THAT(Message(ChooseHttp(options).status()), HasSubstr("--insecure"));
  options.insecure = true;
  EXPECT_EQ(ChooseHttp(options).value(), "127.0.0.1:80") << "on loopback no token is needed";
}

TEST(ServerOptions, PlaintextOfTheControlPlaneStaysOnLoopbackOrOnAPrivateNetwork) {
  ServerOptions options;
  EXPECT_EQ(ChooseControl(options).status().code(), kUnsafe);
  options.insecure = true;
  EXPECT_EQ(ChooseControl(options).value(), "127.0.0.1:0");
  options.listen = "10.0.0.1:0";
  EXPECT_EQ(ChooseControl(options).status().code(), kUnsafe);
  options.trusted_fabric = true;
  options.network_interface = "lo";
  EXPECT_THAT(Message(ChooseControl(options).status()), HasSubstr("covers lo (127.0.0.1) only"));
  options.insecure = false;
  options.listen = "127.0.0.1:0";
  EXPECT_EQ(ChooseControl(options).value(), "127.0.0.1:0");
}

}  // namespace
}  // namespace ringwood
