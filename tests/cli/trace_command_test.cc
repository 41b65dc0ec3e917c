// Timelines and flight records from outside: a real job writes them, `ringwood trace` reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr char kTracedProfile[] =
    "tensor,numel,ready_time_us\n"
    "fc,1000,0\n"
    "conv,200000,20000\n";

TEST(Trace, AJobsTimelinesAreMergedAndSummedUp) {
  const TemporaryDirectory directory;
  const Finished run = RunProgram({"replay", "--trace", directory.Write("t.csv", kTracedProfile),
                                   "--workers=2", "--planner=wfbp", "--route=dense", "--steps=2",
                                   "--warmup=2", "--timeline", directory.path() + "/job.json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string merged = directory.path() + "/all.json";
  const Finished merge =
      RunProgram({"trace", "merge", "-o", merged, directory.path() + "/job.rank0.json",
                  directory.path() + "/job.rank1.json"});
  ASSERT_EQ(merge.code, 0) << merge.err;
  const auto events = nlohmann::json::parse(directory.Read("all.json"), nullptr, false);
  ASSERT_TRUE(events.is_array());
  std::map<std::string, int> count;
  for (const auto& event : events) {
    ++count[event["ph"].get<std::string>() + " " + event.value("cat", "")];
  }
  EXPECT_EQ(count["X ring"], 2 * 4 * 2);  // ranks, steps with the warm-up, groups
  EXPECT_EQ(count["X backward"], 2 * 4);  // the first gradient ends forward
  EXPECT_EQ(count["b chunk"], count["e chunk"]);
  EXPECT_EQ(count["s flow"], count["f flow"]);
  EXPECT_GE(count["s flow"], 2 * 4 * 2);
  const Finished summary = RunProgram({"trace", "summary", "--json", merged});
  ASSERT_EQ(summary.code, 0) << summary.err;
  const auto json = nlohmann::json::parse(summary.out, nullptr, false);
  ASSERT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["ranks"][1]["rounds"], 3);
  EXPECT_GE(json["ranks"][1]["backward_s"], 0.02);
}

TEST(Trace, ReducersHaveTheOtherEndsOfTheArrows) {
  const TemporaryDirectory directory;
  const Finished run = RunProgram({"replay", "--trace", directory.Write("t.csv", kTracedProfile),
                                   "--workers=2", "--servers=2", "--route=sparse", "--density=0.01",
                                   "--steps=3", "--timeline", directory.path() + "/job"});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto file = [&](const char* member) {
    return directory.path() + "/job." + member + ".json";
  };
  const Finished summary = RunProgram({"trace", "summary", "--json", file("rank0"), file("rank1"),
                                       file("server0"), file("server1")});
  ASSERT_EQ(summary.code, 0) << summary.err;
  const auto json = nlohmann::json::parse(summary.out, nullptr, false);
  ASSERT_EQ(json["ranks"].size(), 2u);
  ASSERT_EQ(json["servers"].size(), 2u);
  double reduce = 0;
  for (const auto& server : json["servers"]) reduce += server["reduce_s"].get<double>();
  EXPECT_GT(reduce, 0);
  int up = 0, down = 0;
  for (const auto& link : json["links"]) {
    up += link["from"] < 2 && link["to"] >= 2;
    down += link["from"] >= 2 && link["to"] < 2;
  }
  EXPECT_GE(up, 2);
  EXPECT_EQ(up, down);
}

TEST(Trace, TheFlightRecordOfAKilledRankIsThere) {
  const TemporaryDirectory directory;
  const std::string profile = directory.Write("t.csv", kTracedProfile);
  const std::string record = directory.path() + "/rank1.flight";
  // A watcher reads the living rank's record and kills it after its first commit.
  const std::string watch = "(until " + kProgram + " trace flight " + record +
                            " 2>/dev/null | grep -q committed; do sleep 0.05; done; kill -9 $$) & ";
  const Finished run =
      RunProgram({"run", "-np", "2", "--flight-record", directory.path(), "--", "sh", "-c",
                  "[ $RANK = 1 ] && { " + watch + "}; exec " + kProgram +
                      " replay-worker --trace " + profile + " --steps 100000 --route dense"});
  EXPECT_EQ(run.code, 75);
  EXPECT_THAT(run.err,
              HasSubstr("the last events of rank 1 (host localhost): ringwood trace flight " +
                        directory.path()));
  const Finished killed = RunProgram({"trace", "flight", record});
  EXPECT_EQ(killed.code, 0) << killed.err;
  EXPECT_THAT(killed.out, HasSubstr("rank 1 of 2 on host localhost"));
  EXPECT_THAT(killed.out, HasSubstr("gradient ready"));
  EXPECT_THAT(killed.out, HasSubstr("committed"));
  const Finished other = RunProgram({"trace", "flight", directory.path() + "/rank0.flight"});
  EXPECT_THAT(other.out, HasSubstr("rank 1 (host localhost) failed in epoch 1"));
}

// A rank's timeline, as short as one can be.
std::string TimelineOf(int rank) {
  return "[\n{\"ph\":\"X\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":0,\"ts\":1,\"dur\":1,\"name\":\"a\",\"cat\":\"ring\"},\n";
}

TEST(Trace, ATimelineOfARankIsNotOverwritten) {
  const TemporaryDirectory directory;
  const std::string first = directory.Write("job.rank0.json", TimelineOf(0));
  const std::string second = directory.Write("job.rank1.json", TimelineOf(1));
  std::filesystem::create_hard_link(second, directory.path() + "/same");
  for (const auto& words : {std::vector<std::string>{first, second},  // the name was forgotten
                            {first, first, second},
                            {directory.path() + "/same", first, second}}) {
    std::vector<std::string> merge = {"trace", "merge", "-o"};
    merge.insert(merge.end(), words.begin(), words.end());
    const Finished refused = RunProgram(merge);
    EXPECT_EQ(refused.code, 78) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("give the merged timeline a name of its own"));
  }
  EXPECT_EQ(directory.Read("job.rank0.json"), TimelineOf(0));
  EXPECT_EQ(directory.Read("job.rank1.json"), TimelineOf(1));
  for (int time = 0; time < 2; ++time) {  // a merged one is replaced
    const Finished merged =
        RunProgram({"trace", "merge", "-o", directory.path() + "/job.json", first, second});
    EXPECT_EQ(merged.code, 0) << merged.err;
  }
}

TEST(Trace, WhatIsNoRegularFileIsNotWaitedFor) {
  const TemporaryDirectory directory;
  const std::string pipe = directory.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* command : {"summary", "flight"}) {
    const Finished run = RunProgram({"trace", command, pipe});
    EXPECT_EQ(run.code, 78) << run.err;
    EXPECT_THAT(run.err, HasSubstr(pipe));
  }
}

TEST(Trace, FilesThatAreNotTimelinesAreRefused) {
  const TemporaryDirectory directory;
  const Finished run = RunProgram({"trace", "summary", directory.Write("x", "hello\n")});
  EXPECT_NE(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("x:1: not an event"));
  EXPECT_NE(RunProgram({"trace", "flight", "/nonexistent"}).code, 0);
}

}  // namespace
}  // namespace ringwood
