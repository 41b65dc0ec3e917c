#include "client/exchange/round_totals.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/loop.h"
#include "transport/in_process.h"

namespace ringwood {
namespace {

struct Vote {
  double weight = 0;
  bool non_finite = false;
};

// What each rank knows after round 1, given what it brought.
std::vector<Totals> ExchangeTotals(const std::vector<Vote>& votes) {
  const int world = static_cast<int>(votes.size());
  InProcessNetwork network;
  std::vector<std::unique_ptr<Loop>> loops;
  std::vector<std::unique_ptr<Fabric>> fabrics;
  std::vector<Peer> peers;
  for (int r = 0; r < world; ++r) {
    loops.push_back(std::make_unique<Loop>("rank"));
    fabrics.push_back(network.MakeFabric(loops[r].get()));
    peers.push_back({r, "rank " + std::to_string(r), fabrics[r]->Address()});
  }
  std::vector<std::unique_ptr<Transport>> transports(world);
  std::vector<Totals> answers(world);
  std::vector<std::thread> ranks;
  for (int r = 0; r < world; ++r) {
    ranks.emplace_back([&, r] {
      RoundTotals round({.rank = r, .world = world});
      absl::Notification done;
      const Status started = loops[r]->Call(
          [&]() -> Status {
            RW_ASSIGN_OR_RETURN(transports[r],
                                fabrics[r]->Connect({1, 1, r}, peers, FabricLimits()));
            round.Start(transports[r].get(), 1, votes[r].weight, votes[r].non_finite,
                        [&done](const Status& status) {
                          EXPECT_TRUE(status.ok()) << status;
                          done.Notify();
                        });
            return OkStatus();
          },
          Seconds(30));
      EXPECT_TRUE(started.ok()) << started;
      done.WaitForNotification();
      answers[r] = round.totals();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (int r = 0; r < world; ++r) {
    const Status ended = loops[r]->Call(
        [&] {
          transports[r].reset();
          fabrics[r].reset();
          return OkStatus();
        },
        Seconds(30));
    EXPECT_TRUE(ended.ok()) << ended;
  }
  return answers;
}

TEST(RoundTotals, EveryRankKnowsTheWeightThatTheCoordinatorAddsUp) {
  for (int world = 1; world <= 9; ++world) {
    std::vector<Vote> votes;
    double sum = 0;  // in rank order
    std::vector<int> everyone;
    for (int r = 0; r < world; ++r) {
      everyone.push_back(r);
      votes.push_back({0.1 * r + 1e-17});
      sum += votes.back().weight;
    }
    for (const Totals& totals : ExchangeTotals(votes)) {
      EXPECT_EQ(totals, (Totals{.weight = sum, .skipped = false, .contributors = everyone}));
    }
  }
}

TEST(RoundTotals, WhoHasNoSampleIsNoContributor) {
  for (const Totals& totals : ExchangeTotals({{0}, {2}, {0}, {1}})) {
    EXPECT_EQ(totals.contributors, (std::vector<int>{1, 3}));
  }
}

TEST(RoundTotals, ANaNOnOneRankOrNoSampleAnywhereSkipsTheRoundOnAll) {
  for (const Totals& totals : ExchangeTotals({{2}, {0.5, true}, {1}})) {
    EXPECT_EQ(totals, (Totals{.weight = 3.5, .skipped = true, .contributors = {0, 1, 2}}));
  }
  for (const Totals& totals : ExchangeTotals({{0}, {0}})) {
    EXPECT_EQ(totals, (Totals{.weight = 0, .skipped = true, .contributors = {}}));
  }
}

}  // namespace
}  // namespace ringwood
