// The timeline's writer, the notes that it takes of a transport, and the file that comes out.
#include "timeline/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "timeline/chrome.h"

namespace ringwood {
namespace {

using Json = nlohmann::json;

class Writer : public ::testing::Test {
 protected:
  ~Writer() override { std::remove(file_.c_str()); }

  // The events of phase `phase` in the file; every line of it is an event.
  std::vector<Json> Events(const std::string& phase) {
    std::ifstream file(file_);
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line, "[");
    std::vector<Json> events;
    while (std::getline(file, line)) {
      EXPECT_EQ(line.back(), ',');
      line.pop_back();
      const Json event = Json::parse(line, nullptr, false);
      EXPECT_TRUE(event.is_object()) << line;
      if (event.value("ph", "") == phase) events.push_back(event);
    }
    return events;
  }

  static void Open(TimelineWriter* writer) {
    ObservedSession session;
    session.rank = 1;
    session.world = 2;
    session.host = "h\"1";
    writer->Opened(session);
    Plan plan;
    plan.groups.resize(1);
    plan.groups[0].tensors = {0};
    plan.groups[0].route = "ring";
    std::vector<TensorSpec> table(1);
    table[0].name = "fc\\weight\n";
    writer->PlanAdopted(plan, table, 1);
  }

  static void Play(TimelineWriter* writer, uint64_t round, double start) {
    const auto at = [start](double seconds) { return TimePoint(Seconds(start + seconds)); };
    writer->RoundBegun(round, at(0));
    writer->GradientReady(round, 0, at(1));
    writer->GroupStarted(round, 0, at(2));
    MessageName name;
    name.round = round;
    name.chunk = 4;
    writer->Sent(0, name, 100, NanosecondsOf(at(2)), NanosecondsOf(at(3)));
    writer->Sent(0, name, 100, NanosecondsOf(at(2.5)), NanosecondsOf(at(3.5)));
    writer->Received(0, name, NanosecondsOf(at(4)));
    writer->GroupEnded(round, 0, 200, at(5));
  }

  const std::string file_ = ::testing::TempDir() + "ringwood-" + std::to_string(getpid()) + ".json";
};

TEST_F(Writer, WritesSpansChunksAndArrowsOfEveryRound) {
  {
    auto writer = TimelineWriter::Create(file_);
    ASSERT_TRUE(writer.ok()) << writer.status();
    Open(writer->get());
    Play(writer->get(), 1, 100);
    Play(writer->get(), 2, 200);  // still open when the writer goes
  }
  const std::vector<Json> spans = Events("X");
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0]["name"], "forward, fc\\weight\n");
  EXPECT_EQ(spans[1]["cat"], "ring");
  EXPECT_EQ(spans[1]["ts"], 102e6);
  EXPECT_EQ(spans[1]["dur"], 3e6);
  EXPECT_EQ(spans[1]["pid"], 1);
  EXPECT_EQ(spans[3]["args"]["round"], 2);
  const std::vector<Json> begins = Events("b");
  ASSERT_EQ(begins.size(), 2u);
  EXPECT_EQ(begins[0]["ts"], 102e6);
  EXPECT_EQ(begins[0]["args"]["bytes"], 200);
  EXPECT_EQ(Events("e")[0]["ts"], 104e6);
  EXPECT_EQ(Events("s")[0]["ts"], 102e6);
  EXPECT_EQ(Events("f")[0]["ts"], 104e6);
}

TEST_F(Writer, BothEndsOfAnArrowHaveTheSameName) {
  TimelineChunk sent;
  sent.round = 3;
  sent.chunk = 2;
  sent.touches = {{.peer = 1, .first_sent_nanoseconds = 5}};
  TimelineChunk received = sent;
  received.touches = {{.peer = 0, .first_received_nanoseconds = 6}};
  const auto id = [](const std::string& lines, const std::string& phase) {
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) {
      const Json event = Json::parse(line.substr(0, line.size() - 1));
      if (event["ph"] == phase) return event["id"].get<std::string>();
    }
    return std::string();
  };
  EXPECT_NE(id(ChromeLines(0, std::vector<TimelineChunk>{sent}), "s"), "");
  EXPECT_EQ(id(ChromeLines(0, std::vector<TimelineChunk>{sent}), "s"),
            id(ChromeLines(1, std::vector<TimelineChunk>{received}), "f"));
  received.chunk = 1;
  EXPECT_NE(id(ChromeLines(0, std::vector<TimelineChunk>{sent}), "s"),
            id(ChromeLines(1, std::vector<TimelineChunk>{received}), "f"));
}

TEST_F(Writer, GroupsOfALaneThatOverlapAreOnThreadsOfTheirOwn) {
  const auto span = [](TimelineLane lane, int64_t begin, int64_t end) {
    TimelineSpan made;
    made.lane = lane;
    made.begin_nanoseconds = begin;
    made.end_nanoseconds = end;
    return made;
  };
  const std::vector<TimelineSpan> spans = {
      span(TimelineLane::kTree, 1000, 5000),      span(TimelineLane::kTree, 2000, 3000),
      span(TimelineLane::kRing, 2000, 9000),      span(TimelineLane::kTree, 2500, 6000),
      span(TimelineLane::kTree, 3000, 4000),      span(TimelineLane::kTree, 5000, 6000),
      span(TimelineLane::kSelection, 5000, 9000), span(TimelineLane::kRing, 6000, 9000)};
  const std::string opening = ChromeOpening({.rank = 0, .world = 1, .host = "h"});
  std::map<int, std::string> names;
  std::istringstream head(opening);
  for (std::string line; std::getline(head, line);) {
    if (line.find("thread_name") == std::string::npos) continue;
    const Json event = Json::parse(line.substr(0, line.size() - 1));
    names[event["tid"].get<int>()] = event["args"]["name"];
  }
  std::vector<std::string> threads;
  std::istringstream lines(ChromeLines(0, spans));
  for (std::string line; std::getline(lines, line);) {
    threads.push_back(names[Json::parse(line.substr(0, line.size() - 1))["tid"].get<int>()]);
  }
  EXPECT_THAT(threads, ::testing::ElementsAre("tree", "tree 2", "ring", "tree 3", "tree 2", "tree",
                                              "selection", "ring 2"));
}

TEST_F(Writer, MoreGroupsThanThreadsShareTheLast) {
  std::vector<TimelineSpan> spans;
  for (int64_t i = 0; i < 20; ++i) {
    TimelineSpan& span = spans.emplace_back();
    span.lane = TimelineLane::kTree;
    span.begin_nanoseconds = i;
    span.end_nanoseconds = 1'000'000;
  }
  EXPECT_THAT(ChromeOpening({.rank = 0, .world = 1, .host = "h"}),
              ::testing::HasSubstr("\"tid\":33,\"name\":\"thread_name\""));
  const std::string lines = ChromeLines(0, spans);
  EXPECT_THAT(lines, ::testing::HasSubstr("\"tid\":33,"));
  EXPECT_THAT(lines, ::testing::Not(::testing::HasSubstr("\"tid\":34,")));
}

TEST_F(Writer, AFileThatCannotBeMadeIsNamed) {
  EXPECT_THAT(Message(TimelineWriter::Create("/nonexistent/t.json").status()),
              ::testing::HasSubstr("/nonexistent/t.json"));
}

}  // namespace
}  // namespace ringwood
