#include "launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::HasSubstr;

TEST(Hosts, AListNamesHostsAndSlots) {
  const auto hosts = ParseHosts("h1:4,h2:2,user@h3");
  ASSERT_TRUE(hosts.ok());
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[0].name, "h1");
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[2].name, "user@h3");
  EXPECT_EQ((*hosts)[2].slots, 0);
}

TEST(Hosts, AnIpv6AddressStandsInBrackets) {
  const auto hosts = ParseHosts("[fd00::1]:4,me@[fd00::2],[fd00::3]");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[0].name, "fd00::1");
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[1].name, "me@fd00::2");
  EXPECT_EQ((*hosts)[1].slots, 0);
  EXPECT_EQ((*hosts)[2].name, "fd00::3");
  for (const std::string text : {"fd00::1", "fd00::1:4", "me@fd00::1"}) {
    EXPECT_THAT(Message(ParseHosts(text).status()), HasSubstr("stands in brackets: [fd00::1"));
  }
  EXPECT_EQ(ParseHostFile("fd00::1 slots=4", "hosts")->front().name, "fd00::1");
}

TEST(Hosts, ABadListIsNamed) {
  for (const std::string text : {"",
                                 "h1:0",
                                 "h1:x",
                                 "h1:4,,h2",
                                 "-oProxyCommand=x",
                                 "h1;reboot",
                                 "h1,h1",
                                 "h1:99999999999",
                                 "a b",
                                 "@x",
                                 "x@",
                                 "a@b@c",
                                 "..",
                                 "a..b",
                                 ".a",
                                 "a.",
                                 "%n",
                                 "h%eth0",
                                 "a@-b",
                                 "[",
                                 "[]",
                                 "[h1",
                                 "h1]",
                                 "[h1]]",
                                 "[fe80::1%eth0]",
                                 "[::1]4",
                                 "[::1]:0",
                                 "x[::1]"}) {
    const auto hosts = ParseHosts(text);
    EXPECT_EQ(hosts.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(hosts.status()), HasSubstr("-H")) << text;
  }
}

TEST(Hosts, AFileMayHaveCommentsAndBlankLines) {
  const auto hosts = ParseHostFile("# cluster\n\nh1 slots=4  # big\r\n  h2\n", "hosts");
  ASSERT_TRUE(hosts.ok()) << Message(hosts.status());
  ASSERT_EQ(hosts->size(), 2u);
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[1].name, "h2");
}

TEST(Hosts, AnErrorInAFileNamesFileAndLine) {
  for (const std::string line :
       {"h2 slots=none", "h2 slots=0", "h2 slot=4", "h2 slots=2 slots=1", "h1", "me@h1", "h2;x"}) {
    const auto hosts = ParseHostFile("h1 slots=1\n# comment\n" + line + "\n", "my/hosts");
    EXPECT_THAT(Message(hosts.status()), HasSubstr("my/hosts line 3")) << line;
  }
}

TEST(Hosts, RanksFillTheHostsInOrder) {
  const auto places = PlaceRanks({{"h1", 2}, {"h2", 4}}, 3);
  ASSERT_TRUE(places.ok());
  ASSERT_EQ(places->size(), 2u);
  EXPECT_EQ((*places)[0].count, 2);
  EXPECT_EQ((*places)[1].first_rank, 2);
  EXPECT_EQ((*places)[1].count, 1);
}

TEST(Hosts, TooManyRanksAreRefusedWithTheNumberOfSlots) {
  const auto places = PlaceRanks({{"h1", 2}, {"h2", 4}}, 7);
  EXPECT_THAT(Message(places.status()), HasSubstr("(6)"));
}

TEST(Hosts, HostsWithoutSlotsShareEvenly) {
  const auto places = PlaceRanks({{"h1", 0}, {"h2", 2}, {"h3", 0}}, 7);
  ASSERT_TRUE(places.ok());
  EXPECT_EQ((*places)[0].count, 3);
  EXPECT_EQ((*places)[1].count, 2);
  EXPECT_EQ((*places)[2].count, 2);
}

// Whatever the hosts: every rank has exactly one place, places follow each other, no host is over.
TEST(Hosts, EveryRankHasOnePlace) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (int hosts = 1; hosts <= 9; ++hosts) {
      for (int open = 0; open < 1 << hosts; ++open) {
        std::vector<Host> list;
        for (int i = 0; i < hosts; ++i) {
          list.push_back({"h" + std::to_string(i), (open >> i) & 1 ? 0 : 1 + i % 3});
        }
        const auto places = PlaceRanks(list, ranks);
        if (!places.ok()) {
          EXPECT_EQ(open, 0);
          continue;
        }
        int next = 0;
        for (size_t i = 0; i < places->size(); ++i) {
          const HostRanks& place = (*places)[i];
          ASSERT_EQ(place.first_rank, next);
          ASSERT_EQ(place.group, static_cast<int>(i));
          ASSERT_GT(place.count, 0);
          const Host& host = list[std::stoi(place.host.substr(1))];
          if (host.slots > 0) {
            ASSERT_LE(place.count, host.slots);
          }
          next += place.count;
        }
        ASSERT_EQ(next, ranks);
      }
    }
  }
}

TEST(Hosts, WithoutANumberTheSlotsDecide) {
  const auto places = PlaceRanks({{"h1", 2}, {"h2", 0}}, 0);
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(places->back().first_rank + places->back().count, 3);
}

TEST(Hosts, ARankLearnsItsPlace) {
  RankContext context;
  context.world = 6;
  context.coordinator = "10.0.0.1:41";
  context.master_address = "10.0.0.1";
  context.master_port = 99;
  context.restart = 2;
  context.resume = "auto";
  context.job = 0x1f;
  context.join_timeout_seconds = 7.5;
  const Environment environment = RankEnvironment(context, {"h2", 1, 4, 2}, 1);
  EXPECT_EQ(environment.at("RANK"), "5");
  EXPECT_EQ(environment.at("WORLD_SIZE"), "6");
  EXPECT_EQ(environment.at("LOCAL_RANK"), "1");
  EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(environment.at("GROUP_RANK"), "1");
  EXPECT_EQ(environment.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(environment.at("MASTER_PORT"), "99");
  EXPECT_EQ(environment.at("RINGWOOD_COORDINATOR"), "10.0.0.1:41");
  EXPECT_EQ(environment.at("RINGWOOD_HOST"), "h2");
  EXPECT_EQ(environment.at("RINGWOOD_RESUME"), "auto");
  EXPECT_EQ(environment.at("RINGWOOD_JOB"), "000000000000001f");
  EXPECT_EQ(environment.at("RINGWOOD_JOIN_TIMEOUT"), "7.5");
  EXPECT_EQ(environment.at("RINGWOOD_RESTART"), "2");
  EXPECT_EQ(environment.count("RINGWOOD_TRUSTED_FABRIC"), 0u);
  EXPECT_EQ(environment.count("RINGWOOD_TOKEN"), 0u);
}

TEST(Hosts, ARanksOwnVariablesGoBeforeTheOptionsOfAll) {
  RankContext context;
  context.world = 2;
  context.session = {{"RINGWOOD_WIRE", "bf16"}, {"RINGWOOD_SAVE_PLAN", "plan"}, {"RANK", "7"}};
  context.save_plan = "/somewhere/plan";
  const Environment environment = RankEnvironment(context, {"h1", 0, 0, 2}, 1);
  EXPECT_EQ(environment.at("RINGWOOD_WIRE"), "bf16");
  EXPECT_EQ(environment.at("RINGWOOD_SAVE_PLAN"), "/somewhere/plan");
  EXPECT_EQ(environment.at("RANK"), "1");
}

}  // namespace
}  // namespace ringwood
