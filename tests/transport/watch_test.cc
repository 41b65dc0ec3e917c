// Who is asked, and who has failed: decisions over made-up time.
#include "transport/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ringwood {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string LabelOfRank(int node) { return "rank " + std::to_string(node); }

// A node for each host, named by its letter; ' ': its host is not known.
std::vector<Peer> Nodes(const std::string& hosts) {
  std::vector<Peer> nodes;
  for (const char host : hosts) {
    const int node = static_cast<int>(nodes.size());
    nodes.push_back({node, LabelOfRank(node), "", host == ' ' ? "" : std::string(1, host)});
  }
  return nodes;
}

// Node 0 with peers 1 and 2, limit 10 s: looks every quarter of a second.
class WatchTest : public testing::Test {
 protected:
  std::optional<Watch::Failed> Until(double seconds, const std::set<int>& awaited,
                                     const std::set<int>& lives) {
    return Play(watch_, seconds, awaited, lives);
  }
  // Looks until `seconds`; what is asked for answers if it `lives`. The first failure ends it.
  std::optional<Watch::Failed> Play(Watch& watch, double seconds, const std::set<int>& awaited,
                                    const std::set<int>& lives) {
    for (; ToSeconds(now_ - start_) < seconds; now_ += watch.interval()) {
      const Watch::Decision decision = watch.Look(now_, awaited);
      for (const int peer : decision.ask) {
        ++asked_[peer];
        if (lives.count(peer) > 0) watch.Heard(peer, now_ + Seconds(0.01));
      }
      if (!decision.failed.empty()) return decision.failed.front();
    }
    return std::nullopt;
  }
  double at() const { return ToSeconds(now_ - start_); }

  const TimePoint start_ = TimePoint() + Seconds(1000);
  TimePoint now_ = start_;
  Watch watch_{{Seconds(10), Seconds(60)}, 0, Nodes("   "), start_};
  std::map<int, int> asked_;
};

TEST_F(WatchTest, ALivingPeerMayBeAwaitedForEver) {
  for (int peer : {1, 2}) watch_.Heard(peer, now_);
  EXPECT_FALSE(Until(10000, {1}, {1, 2}).has_value());
  EXPECT_GT(asked_[1], 100);
  EXPECT_EQ(asked_[2], 0);  // nothing is awaited of it
}

TEST_F(WatchTest, AnAwaitedPeerThatDoesNotAnswerFailsAtTheLimit) {
  for (int peer : {1, 2}) watch_.Heard(peer, now_);
  const auto failed = Until(100, {1}, {2});
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->peer, 1);
  EXPECT_EQ(failed->others, Watch::Others::kAnswer);
  EXPECT_NEAR(at(), 10, 0.51);
  EXPECT_GE(asked_[1], 4);
  EXPECT_GE(asked_[2], 1);  // to tell whose network is cut off
  EXPECT_EQ(Message(watch_.Reason(*failed, LabelOfRank)),
            "rank 1 has not answered on the data plane for 10.0 s while others did: its network is "
            "cut off, or it hangs");
  EXPECT_THAT(SilentNodes(Annotate(watch_.Reason(*failed, LabelOfRank), "step 3")), ElementsAre(1));
  EXPECT_FALSE(Until(1000, {1}, {2}).has_value());  // once
}

TEST_F(WatchTest, WhoHearsNobodyNamesItself) {
  for (int peer : {1, 2}) watch_.Heard(peer, now_);
  const auto failed = Until(100, {2}, {});
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->peer, 2);
  EXPECT_EQ(failed->others, Watch::Others::kSilent);
  EXPECT_EQ(Message(watch_.Reason(*failed, LabelOfRank)),
            "rank 0 hears no peer of another host on the data plane any more, for 10.0 s not even "
            "rank 2: its network is cut off");
  EXPECT_THAT(SilentNodes(watch_.Reason(*failed, LabelOfRank)), ElementsAre(0));
  EXPECT_THAT(SilentNodes(TimedOut("another reason")), IsEmpty());
}

// All that await the same peer notice its silence at once, and leave: who looks last is not cut
// off, though nobody is there any more but a peer that was never heard.
TEST_F(WatchTest, WhoLooksLastIsNotCutOff) {
  Watch watch({Seconds(10), Seconds(60)}, 0, Nodes("     "), start_);
  for (int peer : {1, 2, 3}) watch.Heard(peer, now_);
  ASSERT_FALSE(Play(watch, 9.9, {1}, {2, 3}).has_value());
  watch.Forget(2);
  watch.Forget(3);
  const auto failed = Play(watch, 11, {1}, {});
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->peer, 1);
  EXPECT_EQ(failed->others, Watch::Others::kAnswer);
}

// A node of a large world that has spoken with one peer only, as a leaf of a tree has.
class WatchOfALeaf : public WatchTest {
 protected:
  WatchOfALeaf() {
    const std::vector<Peer> nodes = Nodes(std::string(100, ' '));
    watch_.emplace(WatchLimits{Seconds(10), Seconds(60)}, 98, nodes, start_);
    watch_->Heard(1, now_);
  }
  std::optional<Watch::Failed> Until(double seconds, const std::set<int>& lives) {
    return Play(*watch_, seconds, {1}, lives);
  }

  std::optional<Watch> watch_;
};

TEST_F(WatchOfALeaf, AsksAFewStrangersWhoIsCutOff) {
  const auto failed = Until(100, {99, 0});  // they follow it
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->peer, 1);
  EXPECT_EQ(failed->others, Watch::Others::kAnswer);
  EXPECT_NEAR(at(), 10, 0.51);
  std::set<int> asked;
  for (const auto& [peer, times] : asked_) asked.insert(peer);
  EXPECT_EQ(asked, (std::set<int>{0, 1, 99}));
}

TEST_F(WatchOfALeaf, AsksOthersWhereThoseDoNotAnswer) {
  const auto failed = Until(100, {2, 3});
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->others, Watch::Others::kAnswer);
  EXPECT_LE(asked_.size(), 7u);
}

TEST_F(WatchOfALeaf, NamesItselfWhereNobodyAnswers) {
  const auto failed = Until(100, {});
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->others, Watch::Others::kSilent);
  EXPECT_LE(asked_.size(), 9u);
}

TEST_F(WatchOfALeaf, LeavesStrangersAloneWhileItsPeerAnswers) {
  EXPECT_FALSE(Until(1000, {1}).has_value());
  EXPECT_EQ(asked_.size(), 1u);
}

// Hosts of two processes: 0 and 1 on a, 2 and 3 on b, 4 and 5 on c.
class WatchOfHosts : public WatchTest {
 protected:
  explicit WatchOfHosts(const std::string& hosts = "aabbcc")
      : watch_({Seconds(10), Seconds(60)}, 0, Nodes(hosts), start_) {
    for (size_t peer = 1; peer < hosts.size(); ++peer) Hear(static_cast<int>(peer));
  }
  void Hear(int peer) { watch_.Heard(peer, now_); }
  // Whom the error of the first failure accuses, and its text.
  std::vector<int> Accused(const std::set<int>& awaited, const std::set<int>& lives) {
    const auto failed = Play(watch_, 100, awaited, lives);
    if (!failed) return {};
    const Status reason = watch_.Reason(*failed, LabelOfRank);
    text_ = Message(reason);
    return SilentNodes(reason);
  }

  Watch watch_;
  std::string text_;
};

// Processes of one host reach each other without its network.
TEST_F(WatchOfHosts, WhoHearsItsOwnHostAloneNamesItself) {
  EXPECT_THAT(Accused({2}, {1}), ElementsAre(0));
  EXPECT_EQ(text_,
            "rank 0 hears no peer of another host on the data plane any more, for 10.0 s not even "
            "rank 2: its network is cut off");
}

TEST_F(WatchOfHosts, NamesAllOfAHostThatDoesNotAnswer) {
  EXPECT_THAT(Accused({2}, {1, 4, 5}), ElementsAre(2, 3));
  EXPECT_EQ(text_,
            "rank 2 has not answered on the data plane for 10.0 s while others did, nor anybody "
            "else of its host: its network is cut off, or it hangs");
}

TEST_F(WatchOfHosts, NamesOneProcessWhereOthersOfItsHostAnswer) {
  EXPECT_THAT(Accused({2}, {1, 3, 4, 5}), ElementsAre(2));
  EXPECT_THAT(Accused({3}, {1, 3, 4, 5}), IsEmpty());
}

TEST_F(WatchOfHosts, NamesAProcessOfItsOwnHost) {
  EXPECT_THAT(Accused({1}, {2, 3, 4, 5}), ElementsAre(1));
  EXPECT_EQ(text_,
            "rank 1 has not answered on the data plane for 10.0 s while others did: it hangs");
}

// A neighbour that noticed the same silence and left a moment ago says nothing of the network.
TEST_F(WatchOfHosts, ANeighbourThatHasLeftIsNoWitness) {
  ASSERT_FALSE(Play(watch_, 9.9, {2}, {1}).has_value());
  watch_.Forget(1);
  EXPECT_THAT(Accused({2}, {}), ElementsAre(0));
}

TEST_F(WatchOfHosts, OneOfAHostThatHasLeftShowsThatItsNetworkWorks) {
  ASSERT_FALSE(Play(watch_, 9.9, {2}, {1, 3, 4, 5}).has_value());
  watch_.Forget(3);
  EXPECT_THAT(Accused({2}, {1, 4, 5}), ElementsAre(2));
}

class WatchOfTwoHosts : public WatchOfHosts {
 protected:
  WatchOfTwoHosts() : WatchOfHosts("aabb") {}
};

TEST_F(WatchOfTwoHosts, NobodyCanTellWhoseNetworkItIs) {
  EXPECT_THAT(Accused({2}, {1}), ElementsAre(2, 3));
  EXPECT_EQ(text_,
            "rank 2 has not answered on the data plane for 10.0 s, nor anybody else of its "
            "host: its network or ours is cut off, or it hangs");
}

// From the beginning: whom a connection is awaited to, and others of its host that are asked.
TEST_F(WatchTest, NamesAllOfAHostThatWasNeverHeard) {
  Watch watch({Seconds(10), Seconds(60)}, 0, Nodes("aabbbbcc"), start_);
  for (int peer : {1, 6, 7}) watch.Heard(peer, now_);
  const auto failed = Play(watch, 100, {3}, {1, 6, 7});
  ASSERT_TRUE(failed.has_value());
  EXPECT_THAT(SilentNodes(watch.Reason(*failed, LabelOfRank)), ElementsAre(3, 2, 4));
}

TEST_F(WatchTest, WhoHasHeardNobodyNamesItself) {
  Watch watch({Seconds(10), Seconds(60)}, 0, Nodes("aabbcc"), start_);
  watch.Heard(1, now_);
  const auto failed = Play(watch, 100, {2}, {1});
  ASSERT_TRUE(failed.has_value());
  EXPECT_NEAR(at(), 60, 0.51);
  const Status reason = watch.Reason(*failed, LabelOfRank);
  EXPECT_THAT(SilentNodes(reason), ElementsAre(0));
  EXPECT_EQ(Message(reason),
            "rank 0 has heard no peer of another host on the data plane within 60.0 s, not even "
            "rank 2: does a firewall drop packets to its data port?");
}

// Rank 0 has spoken with rank 1 of its host and with rank 8 of the next; all of that host are
// silent.
TEST_F(WatchTest, StrangersOfTheSuspectsHostAreNotAsked) {
  Watch watch({Seconds(10), Seconds(60)}, 0, Nodes("aaaaaaaabbbbbbbbccccccccdd"), start_);
  for (int peer : {1, 8}) watch.Heard(peer, now_);
  const auto failed = Play(watch, 100, {8}, {1, 2, 3, 24});
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->others, Watch::Others::kAnswer);
  std::set<int> asked;
  for (const auto& [peer, times] : asked_) asked.insert(peer);
  EXPECT_EQ(asked.count(16), 1u);  // the first of another host
  EXPECT_EQ(asked.count(24), 1u);  // and of a third
  EXPECT_EQ(asked.lower_bound(2), asked.find(8));
  EXPECT_EQ(asked.count(9) + asked.count(10), 2u);  // does their host answer at all?
  EXPECT_EQ(asked.upper_bound(10), asked.find(16));
}

TEST_F(WatchTest, WhoWasNeverHeardHasTheLimitOfTheStart) {
  watch_.Heard(2, now_);
  const auto failed = Until(100, {1}, {2});
  ASSERT_TRUE(failed.has_value());
  EXPECT_NEAR(at(), 60, 0.51);
  EXPECT_NE(Message(watch_.Reason(*failed, LabelOfRank)).find("rank 1 was not heard"),
            std::string::npos);
}

TEST_F(WatchTest, WhoIsOnTrialHasTheLimitOfSilence) {
  std::vector<Peer> nodes = Nodes("abc");
  nodes[1].on_trial = true;
  Watch watch({Seconds(10), Seconds(60)}, 0, nodes, start_);
  watch.Heard(2, now_);
  const auto failed = Play(watch, 100, {1}, {2});
  ASSERT_TRUE(failed.has_value());
  EXPECT_NEAR(at(), 10, 0.51);
  EXPECT_EQ(Message(watch.Reason(*failed, LabelOfRank)),
            "rank 1 was not heard on the data plane within 10.0 s: does a firewall drop packets to "
            "its data port?");
}

TEST_F(WatchTest, SilenceBeginsWhenSomethingIsAwaited) {
  for (int peer : {1, 2}) watch_.Heard(peer, now_);
  EXPECT_FALSE(Until(500, {}, {}).has_value());
  EXPECT_TRUE(asked_.empty());
  ASSERT_TRUE(Until(1000, {1}, {}).has_value());
  EXPECT_NEAR(at(), 510, 0.51);
}

TEST_F(WatchTest, WhatWeSleptThroughIsNobodysSilence) {
  for (int peer : {1, 2}) watch_.Heard(peer, now_);
  EXPECT_FALSE(Until(1, {1}, {}).has_value());
  now_ += Seconds(3600);  // this process was stopped
  EXPECT_FALSE(Until(3605, {1}, {}).has_value());
  ASSERT_TRUE(Until(9999, {1}, {}).has_value());
  EXPECT_NEAR(at(), 3610, 1.1);
}

TEST_F(WatchTest, WhoIsGoneIsForgotten) {
  for (int peer : {1, 2}) watch_.Heard(peer, now_);
  watch_.Forget(1);
  watch_.Heard(1, now_);
  EXPECT_FALSE(Until(1000, {1, 2}, {2}).has_value());
  EXPECT_EQ(asked_.count(1), 0u);
}

}  // namespace
}  // namespace ringwood
