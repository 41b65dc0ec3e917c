#include "server/status/status_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "paths.h"
#include "proto/job_token.h"
#include "server/status/http_server.h"
#include "server/status/metrics.h"
#include "server/status/status_json.h"
#include "server/status/status_text.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ReadFile(const std::string& name) {
  std::ifstream file(std::string(RINGWOOD_SOURCE_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

v1::StatusResponse AStatus() {
  v1::StatusResponse status;
  status.set_job(0xabc);
  status.set_phase("running");
  status.set_step(7);
  v1::SlotState* const slot = status.add_slots();
  slot->set_role(v1::ROLE_WORKER);
  slot->set_slot(3);
  slot->set_host("a\"b\nc");
  slot->set_state("present");
  slot->mutable_totals()->set_steps(7);
  slot->mutable_totals()->mutable_tree()->set_bytes((1ull << 53) - 1);
  v1::SlotState* const reducer = status.add_slots();
  reducer->set_role(v1::ROLE_REDUCER);
  reducer->set_state("gone");
  status.mutable_plan()->set_planner("say \"x\"\\");
  status.add_checkpoints()->set_step(5);
  status.mutable_checkpoints(0)->set_unix_seconds(123);
  return status;
}

StatusPages Pages(bool guarded) {
  return StatusPages({guarded, "secret", [] { return AStatus(); }});
}

TEST(StatusPages, FactsNeedTheTokenWhereStrangersReachThePort) {
  const StatusPages pages = Pages(true);
  for (const char* path : {"/metrics", "/status.json"}) {
    EXPECT_EQ(pages.Answer({"GET", path, "h1:80", ""}).code, 401);
    EXPECT_EQ(pages.Answer({"GET", path, "h1:80", "Bearer wrong"}).code, 401);
    EXPECT_EQ(pages.Answer({"GET", path, "h1:80", "Bearer secre"}).code, 401);
    EXPECT_EQ(pages.Answer({"GET", path, "h1:80", "secret"}).code, 401);
    EXPECT_EQ(pages.Answer({"GET", path, "h1:80", "Bearer secret"}).code, 200);
    EXPECT_EQ(pages.Answer({"GET", path, "h1:80", "bearer secret"}).code, 200);  // RFC 9110, 11.1
  }
  const HttpAnswer page = pages.Answer({"GET", "/", "h1:80", ""});
  EXPECT_EQ(page.code, 200);
  EXPECT_THAT(page.body, Not(HasSubstr("0000000000000abc")));
  const StatusPages without({true, "", [] { return AStatus(); }});
  EXPECT_EQ(without.Answer({"GET", "/metrics", "h1", "Bearer "}).code, 401);
}

TEST(StatusPages, ATokenOfAnyRoleShowsThemUntilItExpires) {
  const StatusPages pages = Pages(true);
  const int64_t now = std::time(nullptr);
  const std::string good = IssueToken("secret", kObserverRole, now + 600, 1);
  const std::string old = IssueToken("secret", kObserverRole, now - 1, 1);
  EXPECT_EQ(pages.Answer({"GET", "/metrics", "h1:80", "Bearer " + good}).code, 200);
  const HttpAnswer refused = pages.Answer({"GET", "/metrics", "h1:80", "Bearer " + old});
  EXPECT_EQ(refused.code, 401);
  EXPECT_THAT(refused.body, HasSubstr("a token of the role observer that expired at"));
}

TEST(StatusPages, OnLoopbackAnotherSitesNameIsRefused) {
  const StatusPages pages = Pages(false);
  for (const char* host : {"127.0.0.1:9090", "localhost:9090", "127.0.0.1", "[::1]:80"}) {
    EXPECT_EQ(pages.Answer({"GET", "/status.json", host, ""}).code, 200) << host;
  }
  for (const char* host : {"evil.example:9090", "", "localhost.evil.example", "1.example", "[::1",
                           "::1]", "[evil.example]"}) {
    EXPECT_EQ(pages.Answer({"GET", "/status.json", host, ""}).code, 403) << host;
  }
}

TEST(StatusPages, AreReadOnly) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", ""}) {
    EXPECT_EQ(Pages(false).Answer({method, "/metrics", "127.0.0.1", ""}).code, 405);
  }
  EXPECT_EQ(Pages(false).Answer({"GET", "/../etc/passwd", "127.0.0.1", ""}).code, 404);
}

TEST(StatusPages, ACoordinatorThatDoesNotAnswerIsSaidSo) {
  const StatusPages pages({false, "", [] { return TimedOut("busy"); }});
  const HttpAnswer answer = pages.Answer({"GET", "/metrics", "127.0.0.1", ""});
  EXPECT_EQ(answer.code, 503);
  EXPECT_THAT(answer.body, HasSubstr("busy"));
}

TEST(StatusPages, ThePageNeedsNothingFromOutside) {
  const std::string page = StatusPage();
  EXPECT_EQ(page, ReadFile("server/status/page.html"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(StatusJson, SaysWhatTheStatusSays) {
  const auto json = nlohmann::json::parse(ToJson(AStatus(), -1));
  EXPECT_EQ(json["job"], "0000000000000abc");
  EXPECT_EQ(json["slots"][0]["slot"], 3);
  EXPECT_EQ(json["slots"][0]["totals"]["tree"]["bytes"], (1ull << 53) - 1);
  EXPECT_EQ(json["slots"][1]["role"], "reducer");
  EXPECT_TRUE(json["slots"][1]["node"].is_null());
  EXPECT_EQ(json["checkpoints"][0]["step"], 5);
}

TEST(StatusText, SaysTimesWithTheirDateAndRatesWithoutAnExponent) {
  v1::StatusResponse status = AStatus();
  status.set_steps_per_second(1234.5);
  v1::JobEvent* const event = status.add_events();
  event->set_unix_seconds(1796049617.9);
  event->set_name("stalled");
  event->set_step(7);
  event->set_text("why");
  EXPECT_EQ(StateLine(status), "running, job 0000000000000abc, epoch 0, step 7, 1234 steps/s");
  EXPECT_THAT(StatusText(status), EndsWith("\n2026-11-30 14:40:17Z stalled step 7: why\n"));
}

TEST(Metrics, NamesFollowPrometheusConventions) {
  std::set<std::string> names;
  for (const Metric& metric : Metrics()) {
    const std::string name = metric.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_THAT(name, StartsWith("ringwood_"));
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    const bool counter = metric.type == prometheus::MetricType::Counter;
    EXPECT_EQ(counter, name.size() > 6 && name.substr(name.size() - 6) == "_total") << name;
    EXPECT_NE(metric.help[0], '\0') << name;
  }
}

TEST(Metrics, TheTextHasEscapedLabelsAndExactNumbers) {
  const std::string text = MetricsText(AStatus());
  EXPECT_THAT(text, HasSubstr("# TYPE ringwood_steps_total counter\n"
                              "ringwood_steps_total{job=\"0000000000000abc\",role=\"rank\",slot="
                              "\"3\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("slot=\"3\",lane=\"tree\"} 9007199254740991\n"));
  EXPECT_THAT(text, HasSubstr("planner=\"say \\\"x\\\"\\\\\""));
  EXPECT_THAT(text, EndsWith("\n"));
}

TEST(Metrics, WhoIsGoneForGoodIsNoSilentMember) {
  v1::StatusResponse status = AStatus();
  status.mutable_slots(0)->set_silence_seconds(3);
  status.mutable_slots(1)->set_silence_seconds(3600);
  for (const char* state : {"gone", "left", "away"}) {
    status.mutable_slots(1)->set_state(state);
    const std::string text = MetricsText(status);
    EXPECT_THAT(text, HasSubstr("ringwood_heartbeat_age_seconds{job=\"0000000000000abc\",role="
                                "\"rank\",slot=\"3\"} 3\n"));
    EXPECT_THAT(text, Not(HasSubstr("3600"))) << state;
  }
  status.mutable_slots(1)->set_state("silent");
  EXPECT_THAT(MetricsText(status), HasSubstr("role=\"reducer\",slot=\"0\"} 3600\n"));
}

TEST(Metrics, TheDocumentationHasTheTable) {
  EXPECT_THAT(ReadFile("docs/metrics.md"), HasSubstr(MetricsTable()))
      << "docs/metrics.md has another table than this:\n"
      << MetricsTable();
}

TEST(Metrics, TheDashboardNamesMetricsThatExist) {
  std::set<std::string> names;
  for (const Metric& metric : Metrics()) names.insert(metric.name);
  const auto board = nlohmann::json::parse(ReadFile("examples/grafana/ringwood.json"));
  int seen = 0;
  for (const auto& panel : board["panels"]) {
    for (const auto& target : panel.value("targets", nlohmann::json::array())) {
      const std::string text = target["expr"];
      for (size_t at = text.find("ringwood_"); at != std::string::npos;
           at = text.find("ringwood_", at + 1)) {
        const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
        EXPECT_TRUE(names.count(text.substr(at, end - at))) << text;
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 10);
}

// ---- over a socket ----

int Connect(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return descriptor;
}

std::string Ask(int port, const std::string& bytes) {
  const int descriptor = Connect(port);
  EXPECT_EQ(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  ::shutdown(descriptor, SHUT_WR);
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = ::recv(descriptor, buffer, sizeof buffer, 0)) > 0;) answer.append(buffer, n);
  ::close(descriptor);
  return answer;
}

std::unique_ptr<HttpServer> Serving() {
  auto server = HttpServer::Open(
      "127.0.0.1:0", "", [](const HttpRequest& request) { return Pages(false).Answer(request); });
  EXPECT_TRUE(server.ok()) << server.status();
  const Status listens = (*server)->Listen();
  EXPECT_TRUE(listens.ok()) << listens;
  return *std::move(server);
}

TEST(HttpServer, AnswersOneRequestAConnection) {
  const auto server = Serving();
  ASSERT_GT(server->port(), 0);
  const std::string answer =
      Ask(server->port(), "GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\n# HELP ringwood_epoch"));
  EXPECT_THAT(answer, EndsWith("\n"));
  EXPECT_THAT(Ask(server->port(), "HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Ask(server->port(), "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
}

TEST(HttpServer, GarbageLeavesItServing) {
  const auto server = Serving();
  std::string garbage(3000, '\xff');
  for (int i = 0; i < 200; ++i) {
    const int descriptor = Connect(server->port());
    (void)::send(descriptor, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    ::close(descriptor);
  }
  const std::string endless = "GET /" + std::string(64 << 10, 'a');
  const int descriptor = Connect(server->port());
  (void)::send(descriptor, endless.data(), endless.size(), MSG_NOSIGNAL);
  ::close(descriptor);
  EXPECT_THAT(Ask(server->port(), "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(HttpServer, WhoSaysNothingHoldsItUpNoLongerThanARequestMayTake) {
  const auto server = Serving();
  std::vector<int> idle;
  for (int i = 0; i < HttpServer::kConnections + 4; ++i) idle.push_back(Connect(server->port()));
  EXPECT_THAT(Ask(server->port(), "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              StartsWith("HTTP/1.1 200 OK\r\n"));
  for (const int descriptor : idle) ::close(descriptor);
}

TEST(HttpServer, EndsWhileConnectionsAreOpen) {
  auto server = Serving();
  std::vector<int> idle;
  for (int i = 0; i < 3 * HttpServer::kConnections; ++i) idle.push_back(Connect(server->port()));
  server.reset();
  for (const int descriptor : idle) ::close(descriptor);
}

TEST(HttpServer, ARequestWithABodyIsAnsweredByItsHeader) {
  const auto server = Serving();
  EXPECT_THAT(Ask(server->port(),
                  "POST /status.json HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Length: 5\r\n\r\nhello"),
              StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_THAT(Ask(server->port(), "GET /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 403"));
  const std::string long_path(2 * HttpServer::kMaxRequestBytes, 'a');
  EXPECT_EQ(Ask(server->port(), "GET /" + long_path + " HTTP/1.1\r\n\r\n"), "");
}

TEST(HttpServer, ListensOnIpv6) {
  const auto server = HttpServer::Open(
      "[::1]:0", "", [](const HttpRequest&) { return HttpAnswer{.body = "here"}; });
  if (!server.ok() && Message(server.status()).find("no such address") != std::string::npos) {
    GTEST_SKIP() << "this machine has no ::1";
  }
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->Listen().ok());
  EXPECT_GT((*server)->port(), 0);
}

TEST(HttpServer, AFolderWithoutACertificateIsNamed) {
  const auto server = HttpServer::Open("127.0.0.1:0", "/nonexistent",
                                       [](const HttpRequest&) { return HttpAnswer(); });
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(Message(server.status()),
              HasSubstr("--http-tls: cannot use /nonexistent/cert.pem: No such file"));
}

TEST(HttpServer, AKeyThatOthersCanReadIsRefused) {
  using std::filesystem::perms;
  const TemporaryDirectory directory;
  directory.Write("cert.pem", "none");
  const std::string key = directory.Write("key.pem", "none");
  const auto why = [&](perms mode) {
    std::filesystem::permissions(key, mode);
    return Message(HttpServer::Open("127.0.0.1:0", directory.path(), [](const HttpRequest&) {
                     return HttpAnswer();
                   }).status());
  };
  for (const perms mode : {perms(0644), perms(0604), perms(0660)}) {
    EXPECT_THAT(why(mode), HasSubstr("--http-tls: the key " + key + " can be read by others"));
  }
  EXPECT_THAT(why(perms(0600)), HasSubstr("cannot use " + directory.path() + "/cert.pem"));
}

TEST(HttpServer, APortInUseIsRefusedByName) {
  const auto server = Serving();
  const auto second = HttpServer::Open("127.0.0.1:" + std::to_string(server->port()), "",
                                       [](const HttpRequest&) { return HttpAnswer(); });
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(Message(second.status()), HasSubstr("the port is in use"));
  // One that is taken and does not listen yet is as well.
  const auto open = [](int port) {
    return HttpServer::Open("127.0.0.1:" + std::to_string(port), "",
                            [](const HttpRequest&) { return HttpAnswer(); });
  };
  const auto first = open(0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Message(open((*first)->port()).status()), HasSubstr("the port is in use"));
}

}  // namespace
}  // namespace ringwood
