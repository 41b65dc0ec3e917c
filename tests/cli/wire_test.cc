// The two values that travel between launcher and worker: the job down, reports up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "cli/flags/arguments.h"
#include "launch/job.h"
#include "launch/network.h"
#include "launch/report.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Job SomeJob() {
  Job job;
  job.host = "h1";
  job.network_interface = "eth0";
  job.directory = "/tmp";
  job.command = {"sh", "-c", "echo \"a b\"\n$RANK 'ü'"};
  job.environment = {{"A", "1"}, {"EMPTY", ""}};
  job.slots = {{"rank 4", {{"RANK", "4"}}}, {"rank 5", {{"RANK", "5"}}}};
  return job;
}

TEST(Job, ComesBackAsItWent) {
  const Job job = SomeJob();
  const std::string text = ToJson(job);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto back = JobFromJson(text);
  ASSERT_TRUE(back.ok()) << Message(back.status());
  EXPECT_EQ(back->command, job.command);
  EXPECT_EQ(back->environment, job.environment);
  ASSERT_EQ(back->slots.size(), 2u);
  EXPECT_EQ(back->slots[1].name, "rank 5");
  EXPECT_EQ(back->slots[1].environment, job.slots[1].environment);
  EXPECT_EQ(ToJson(*back), text);
}

TEST(Job, AnotherVersionIsRefusedByNumber) {
  std::string text = ToJson(SomeJob());
  const std::string version = "\"version\":" + std::to_string(Job::kVersion);
  const size_t at = text.find(version);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, version.size(), "\"version\":70");
  EXPECT_THAT(Message(JobFromJson(text).status()), HasSubstr("version 70"));
}

TEST(Job, NoTruncationIsReadable) {
  const std::string text = ToJson(SomeJob());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(JobFromJson(text.substr(0, size)).ok()) << size;
  }
}

TEST(Job, WrongTypesAreAnErrorNotACrash) {
  for (const std::string text :
       {"[]", "1", "{}", "null", R"({"version":"1"})", R"({"version":1,"host":1})"}) {
    EXPECT_FALSE(JobFromJson(text).ok()) << text;
  }
}

TEST(Report, EveryCutOfTheStreamGivesTheSameReports) {
  const std::string stream = "Welcome to h1!\n" + std::string(kOpening) +
                             Encode({ReportKind::kHello, 0, "10.0.0.1 99"}) +
                             Encode({ReportKind::kOutput, 3, std::string("a\0b\n", 4)}) +
                             Encode({ReportKind::kEnded, 3, "0 0 0"});
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    ReportReader reader;
    std::vector<Report> reports;
    auto sink = [&](const Report& report) { reports.push_back(report); };
    ASSERT_TRUE(reader.Feed(stream.substr(0, cut), sink).ok());
    ASSERT_TRUE(reader.Feed(stream.substr(cut), sink).ok());
    ASSERT_EQ(reports.size(), 3u) << cut;
    EXPECT_EQ(reports[1].slot, 3u);
    EXPECT_EQ(reports[1].payload, std::string("a\0b\n", 4));
    EXPECT_EQ(reader.foreign(), "Welcome to h1!\n");
  }
}

TEST(Report, AShellThatOnlyTalksIsNotAWorker) {
  ReportReader reader;
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = reader.Feed("Last login: Monday\n", [](const Report&) { FAIL(); });
  }
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_LE(reader.foreign().size(), ReportReader::kMaxForeign);
}

TEST(Report, RandomBytesAreRefusedOrIgnored) {
  Random random(7);
  for (int run = 0; run < 2000; ++run) {
    ReportReader reader;
    std::string bytes = kOpening;
    for (uint64_t i = random.Below(64); i > 0; --i) bytes += static_cast<char>(random.Next());
    (void)reader.Feed(
        bytes, [](const Report& report) { EXPECT_LE(report.payload.size(), kMaxReportBytes); });
  }
}

TEST(Arguments, TheCommandIsCutAtTheDashes) {
  const Arguments split = SplitArguments({"run", "-np", "4", "--", "python", "-np", "--", "x"});
  EXPECT_THAT(split.own, ElementsAre("run", "--num-proc", "4"));
  EXPECT_THAT(split.trailing, ElementsAre("python", "-np", "--", "x"));
  EXPECT_TRUE(split.dashes);
  EXPECT_THAT(SplitArguments({"run", "-np=4"}).own, ElementsAre("run", "--num-proc=4"));
}

// What a trainer's store does: bind, with SO_REUSEADDR or without, and listen.
bool CanListen(int port, bool reuse) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (reuse) ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = ::bind(socket, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
  const bool listens = bound && ::listen(socket, 1) == 0;
  ::close(socket);
  return listens;
}

TEST(Network, AHeldPortIsKeptForWhoeverListensThereNext) {
  const auto held = HeldPort::Take("127.0.0.1", "");
  ASSERT_TRUE(held.ok());
  EXPECT_GT(held->port(), 0);
  EXPECT_TRUE(CanListen(held->port(), true));
  EXPECT_FALSE(CanListen(held->port(), false)) << "nobody else gets it by chance";
  EXPECT_FALSE(HeldPort::Take("256.0.0.1", "").ok());
}

TEST(Network, TheLastFreePortOfARangeIsHeld) {
  const auto any = HeldPort::Take("127.0.0.1", "");  // where the kernel says, and below: our range
  ASSERT_TRUE(any.ok());
  const std::string range = absl::StrFormat("%d-%d", any->port() - 40, any->port());
  const auto first = HeldPort::Take("127.0.0.1", range);
  const auto second = HeldPort::Take("127.0.0.1", range);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_LT(first->port(), any->port());
  EXPECT_LT(second->port(), first->port());
  EXPECT_EQ(WithoutHeldPort("20000-20099"), "20000-20098");
  EXPECT_EQ(WithoutHeldPort("20000-20000"), "20000-20000");
  EXPECT_EQ(WithoutHeldPort(""), "");
}

}  // namespace
}  // namespace ringwood
