// Communicators through the C interface: every collective against what it should give, several
// at once in any order, and how a call that cannot end ends.
#include "client/connection/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "client/c/handle.h"
#include "dense/cut.h"
#include "include/ringwood_communicator.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

void RunRanks(int world, const std::function<void(ringwood_session*)>& rank) {
  RunOwningJob({.world = world}, [&](std::unique_ptr<Session> session, GatheringCoordinator&) {
    auto* const handle = new ringwood_session(std::move(session));
    rank(handle);
    ringwood_close(handle, nullptr);
  });
}

std::vector<int> AllOf(ringwood_session* session) {
  std::vector<int> ranks(ringwood_world(session));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// A communicator of the C interface.
class Members {
 public:
  Members(ringwood_session* session, const std::vector<int>& ranks, uint32_t number) {
    EXPECT_EQ(ringwood_communicator_make(session, ranks.data(), ranks.size(), number, &made_),
              RINGWOOD_OK)
        << ringwood_last_error();
  }
  ~Members() { ringwood_communicator_free(made_); }

  template <typename T>
  ringwood_work* Start(int collective, int type, const std::vector<T>& in, std::vector<T>& out,
                       int op = RINGWOOD_SUM, int root = 0,
                       const std::vector<uint64_t>& shares = {},
                       const std::vector<uint64_t>& receives = {}) {
    ringwood_collective_call call{};
    call.size = sizeof call;
    call.collective = collective;
    call.type = type;
    call.op = op;
    call.root = root;
    call.input = in.data();
    call.input_elements = in.size();
    call.output = out.data();
    call.output_elements = out.size();
    call.shares = shares.empty() ? nullptr : shares.data();
    call.receives = receives.empty() ? nullptr : receives.data();
    call.about = about;
    ringwood_work* work = nullptr;
    EXPECT_EQ(ringwood_start(made_, &call, &work), RINGWOOD_OK) << ringwood_last_error();
    return work;
  }
  template <typename... Arguments>
  void Run(Arguments&&... arguments) {
    End(Start(std::forward<Arguments>(arguments)...));
  }
  static void End(ringwood_work* work) {
    EXPECT_EQ(ringwood_wait(work, NAN), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_wait(work, 60), RINGWOOD_OK) << ringwood_last_error();
    EXPECT_EQ(ringwood_done(work), 1);
    EXPECT_EQ(ringwood_wait(work, 0), RINGWOOD_OK);
    ringwood_work_free(work);
  }

  uint64_t about = 0;  // of the next calls

 private:
  ringwood_communicator* made_ = nullptr;
};

// Rank r's element i.
int32_t ValueAt(int rank, size_t i) { return static_cast<int32_t>(i % 97) * (rank + 1) - rank; }

std::vector<int32_t> InputOf(int rank, size_t elements) {
  std::vector<int32_t> values(elements);
  for (size_t i = 0; i < elements; ++i) values[i] = ValueAt(rank, i);
  return values;
}

std::vector<int32_t> SumOf(int world, size_t elements) {
  std::vector<int32_t> sum(elements);
  for (int rank = 0; rank < world; ++rank) {
    for (size_t i = 0; i < elements; ++i) sum[i] += ValueAt(rank, i);
  }
  return sum;
}

void CheckReductions(Members& comm, int rank, int world, size_t elements) {
  const std::vector<int32_t> in = InputOf(rank, elements), sum = SumOf(world, elements);
  std::vector<int32_t> out(elements), none;
  comm.Run(RINGWOOD_ALL_REDUCE, RINGWOOD_INT32, in, out);
  EXPECT_EQ(out, sum);
  EXPECT_EQ(in, InputOf(rank, elements));
  for (const int root : {0, world - 1}) {
    std::fill(out.begin(), out.end(), 0);
    comm.Run(RINGWOOD_REDUCE, RINGWOOD_INT32, in, rank == root ? out : none, RINGWOOD_SUM, root);
    if (rank == root) {
      EXPECT_EQ(out, sum);
    }
    std::vector<int32_t> data = InputOf(rank, elements);
    comm.Run(RINGWOOD_BROADCAST, RINGWOOD_INT32, none, data, RINGWOOD_SUM, root);
    EXPECT_EQ(data, InputOf(root, elements));
  }
}

void CheckShares(Members& comm, int rank, int world, size_t elements, bool even) {
  std::vector<uint64_t> shares;
  for (int r = 0; r < world; ++r) {
    const bool last = r + 1 == world;
    const uint64_t used = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
    shares.push_back(last ? elements - used : (elements - used) / 2);
  }
  const Range mine = even ? EvenPart(elements, world, rank) : CutBy(shares)[rank];
  if (even) shares.clear();
  const std::vector<int32_t> in = InputOf(rank, elements), sum = SumOf(world, elements);
  std::vector<int32_t> share(mine.count), all(elements);
  comm.Run(RINGWOOD_REDUCE_SCATTER, RINGWOOD_INT32, in, share, RINGWOOD_SUM, 0, shares);
  EXPECT_EQ(share,
            std::vector<int32_t>(sum.begin() + mine.begin, sum.begin() + mine.begin + mine.count));
  EXPECT_EQ(in, InputOf(rank, elements));
  comm.Run(RINGWOOD_ALL_GATHER, RINGWOOD_INT32, share, all, RINGWOOD_SUM, 0, shares);
  EXPECT_EQ(all, sum);
}

TEST(Communicators, GiveWhatTheirCollectivesSay) {
  for (int world = 1; world <= 9; ++world) {
    RunRanks(world, [&](ringwood_session* session) {
      const int rank = ringwood_rank(session);
      Members comm(session, AllOf(session), 1);
      for (const size_t elements : {1u, 7u, 4096u, 100'003u}) {
        CheckReductions(comm, rank, world, elements);
        CheckShares(comm, rank, world, elements, true);
        CheckShares(comm, rank, world, elements, false);
      }
      const std::vector<uint64_t> each(world, 3);
      std::vector<int32_t> in(3 * world, rank), out(3 * world), expected;
      comm.Run(RINGWOOD_ALL_TO_ALL, RINGWOOD_INT32, in, out, RINGWOOD_SUM, 0, each, each);
      for (int r = 0; r < world; ++r) expected.insert(expected.end(), 3, r);
      EXPECT_EQ(out, expected);
    });
  }
}

TEST(Communicators, AveragesMaximaAndProductsAreOfTheGroup) {
  RunRanks(3, [](ringwood_session* session) {
    Members comm(session, AllOf(session), 1);
    const float value = static_cast<float>(ringwood_rank(session) + 2);
    const std::vector<float> in(5, value);
    std::vector<float> out(5);
    for (const auto& [op, expected] : std::vector<std::pair<int, float>>{
             {RINGWOOD_AVERAGE, 3}, {RINGWOOD_MAX, 4}, {RINGWOOD_MIN, 2}, {RINGWOOD_PRODUCT, 24}}) {
      comm.Run(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out, op);
      EXPECT_THAT(out, Each(expected));
    }
    const std::vector<uint16_t> halves(5, 0x4000);  // 2.0
    std::vector<uint16_t> averaged(5);
    comm.Run(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT16, halves, averaged, RINGWOOD_AVERAGE);
    EXPECT_THAT(averaged, Each(0x4000));
  });
}

// Rows and columns of a mesh of 2 x 3, and everybody: each rank starts them in an order of its own,
// several calls of each, and waits from the last to the first.
TEST(Communicators, DoNotWaitForEachOther) {
  RunRanks(6, [](ringwood_session* session) {
    const int rank = ringwood_rank(session), row = rank / 3, column = rank % 3;
    const std::vector<int> row_ranks = {row * 3, row * 3 + 1, row * 3 + 2};
    const std::vector<int> column_ranks = {column + 3, column};
    Members comm(session, AllOf(session), 7);
    Members rows(session, row_ranks, 1 + row);
    Members columns(session, column_ranks, 10 + column);
    constexpr int kCalls = 10;
    std::vector<std::vector<float>> outs(3 * kCalls, std::vector<float>(20'000));
    const std::vector<float> in(20'000, static_cast<float>(1 << rank));
    std::vector<ringwood_work*> works;
    Members* const comms[] = {&comm, &rows, &columns};
    for (int which = 0; which < 3; ++which) {
      for (int call = 0; call < kCalls; ++call) {
        const int at = (which + rank) % 3;
        works.push_back(
            comms[at]->Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, outs[at * kCalls + call]));
      }
    }
    for (size_t i = works.size(); i-- > 0;) Members::End(works[i]);
    float sums[] = {63, 0, 0};
    for (const int r : row_ranks) sums[1] += static_cast<float>(1 << r);
    for (const int r : column_ranks) sums[2] += static_cast<float>(1 << r);
    for (size_t i = 0; i < outs.size(); ++i) EXPECT_THAT(outs[i], Each(sums[i / kCalls]));
  });
}

// More than a transport keeps of a peer: the root waits for the one that is late.
TEST(Communicators, ARootDoesNotRunAheadOfAMemberThatIsLate) {
  absl::Notification began;
  RunRanks(2, [&](ringwood_session* session) {
    Members comm(session, AllOf(session), 1);
    const bool root = ringwood_rank(session) == 0;
    std::vector<std::vector<int32_t>> data(6, std::vector<int32_t>(5 << 20, root ? 9 : 0));
    const std::vector<int32_t> none;
    if (!root) began.WaitForNotification();
    std::vector<ringwood_work*> works;
    for (auto& each : data) {
      works.push_back(comm.Start(RINGWOOD_BROADCAST, RINGWOOD_INT32, none, each));
    }
    if (root) {
      Members small(session, AllOf(session), 2);  // what the net loop does now comes after them
      const std::vector<int32_t> one(1, 1);
      std::vector<int32_t> out(1);
      ringwood_work* const last = small.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_INT32, one, out);
      EXPECT_EQ(ringwood_done(works.back()), 0);
      began.Notify();
      Members::End(last);
    } else {
      Members small(session, AllOf(session), 2);
      const std::vector<int32_t> one(1, 1);
      std::vector<int32_t> out(1);
      small.Run(RINGWOOD_ALL_REDUCE, RINGWOOD_INT32, one, out);
    }
    for (ringwood_work* const work : works) Members::End(work);
    for (const auto& each : data) EXPECT_EQ(each, std::vector<int32_t>(5 << 20, 9));
  });
}

// On rank 0 of two: `rank`, with a call that rank 1 does not make, which is there until it returns.
void RunUnanswered(const std::function<void(ringwood_session*, Members&, ringwood_work*)>& rank) {
  absl::Notification over;
  RunRanks(2, [&](ringwood_session* session) {
    if (ringwood_rank(session) == 1) return over.WaitForNotification();
    Members comm(session, AllOf(session), 1);
    const std::vector<float> in(10, 1.0f);
    std::vector<float> out(10);
    rank(session, comm, comm.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out));
    over.Notify();
  });
}

TEST(Communicators, ACallThatDoesNotEndInTimeNamesWhomItAwaits) {
  RunUnanswered([](ringwood_session* session, Members& comm, ringwood_work* work) {
    const std::vector<float> in(10, 1.0f);
    std::vector<float> out(10);
    ringwood_work* const later = comm.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out);
    EXPECT_EQ(ringwood_wait(work, 0.2), RINGWOOD_TIMED_OUT);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("rank 0: all-reduce of 10 float32"));
    EXPECT_THAT(ringwood_last_error(), HasSubstr("still awaited: rank 1"));
    EXPECT_EQ(ringwood_wait(work, 60), RINGWOOD_TIMED_OUT);  // at once
    EXPECT_NE(ringwood_wait(later, 60), RINGWOOD_OK);
    EXPECT_EQ(ringwood_allreduce(session, out.data(), 10, RINGWOOD_FLOAT32, RINGWOOD_SUM),
              RINGWOOD_TIMED_OUT);
    ringwood_work_free(work);
    ringwood_work_free(later);
  });
}

// The time is over before the net loop comes to the calls; when it is asked whom they await, it
// has.
TEST(Communicators, ACallThatHasEndedMeanwhileIsNotOneThatWaits) {
  RunRanks(2, [](ringwood_session* session) {
    Members alone(session, {ringwood_rank(session)}, 1 + ringwood_rank(session));
    const std::vector<float> in(1 << 18, 1.0f);
    std::vector<std::vector<float>> outs(100, std::vector<float>(in.size()));
    std::vector<ringwood_work*> works;
    for (auto& out : outs) {
      works.push_back(alone.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out));
    }
    EXPECT_EQ(ringwood_wait(works.back(), 0), RINGWOOD_OK) << ringwood_last_error();
    for (ringwood_work* const work : works) Members::End(work);
  });
}

// Of two ranks whose calls differ the one that is told first closes its session: the other one may
// hear of that, where it has not looked at the first message yet.
class Difference {
 public:
  explicit Difference(std::vector<std::string> words) : words_(std::move(words)) {}
  ~Difference() { EXPECT_GE(told_, 1) << "nobody was told"; }
  void AwaitIn(ringwood_work* work) {
    const int code = ringwood_wait(work, 60);
    const std::string error = ringwood_last_error();
    if (code == RINGWOOD_UNAVAILABLE) {
      EXPECT_THAT(error, HasSubstr("was closed"));
    } else {
      ++told_;
      EXPECT_EQ(code, RINGWOOD_INVALID) << error;
      for (const std::string& word : words_) EXPECT_THAT(error, HasSubstr(word));
    }
    ringwood_work_free(work);
  }

 private:
  const std::vector<std::string> words_;
  std::atomic<int> told_{0};
};

TEST(Communicators, CallsThatDifferAreNamedOnASideThatCanKnow) {
  Difference difference({"called different collectives"});
  RunRanks(2, [&](ringwood_session* session) {
    Members comm(session, AllOf(session), 1);
    const size_t elements = ringwood_rank(session) == 0 ? 17 : 23;
    const std::vector<float> in(elements, 1.0f);
    std::vector<float> out(elements);
    difference.AwaitIn(comm.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out));
  });
}

// Their chunks are alike as far as the shorter goes: it would be done, and the longer wait for
// ever.
TEST(Communicators, ACallThatIsShorterOnARankIsAnErrorFromItsFirstMessage) {
  constexpr size_t kElements = 2 << 20;
  Difference difference({"of 2228224 in all", "of 2097152 in all"});
  RunRanks(2, [&](ringwood_session* session) {
    Members comm(session, AllOf(session), 1);
    const size_t elements = kElements + (ringwood_rank(session) == 0 ? 0 : kElements / 16);
    const std::vector<float> in(elements, 1.0f);
    std::vector<float> out(elements);
    difference.AwaitIn(comm.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out));
  });
}

TEST(Communicators, OperationsThatDifferAreNamedOnBothSides) {
  Difference difference({"average of 17 elements of float32", "max of 17 elements of float32"});
  RunRanks(2, [&](ringwood_session* session) {
    Members comm(session, AllOf(session), 1);
    const bool first = ringwood_rank(session) == 0;
    const std::vector<float> in(17, 1.0f);
    std::vector<float> out(17);
    difference.AwaitIn(comm.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out,
                                  first ? RINGWOOD_AVERAGE : RINGWOOD_MAX));
  });
}

TEST(Communicators, CallsAboutDifferentThingsAreAnErrorFromTheirFirstMessage) {
  Difference difference({"called different collectives"});
  RunRanks(2, [&](ringwood_session* session) {
    Members comm(session, AllOf(session), 1);
    const uint64_t rank = ringwood_rank(session);
    const std::vector<float> in(17, 1.0f);
    std::vector<float> out(17);
    comm.about = 5;
    comm.Run(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out);
    comm.about += rank;
    difference.AwaitIn(comm.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, in, out));
  });
}

// Each takes itself for the root: both send, and neither awaits anything.
TEST(Communicators, RootsThatDifferAreAnErrorOfTheNextCall) {
  Difference difference({"called different collectives"});
  RunRanks(2, [&](ringwood_session* session) {
    Members comm(session, AllOf(session), 1);
    std::vector<float> data(17, 1.0f), none;
    comm.Run(RINGWOOD_BROADCAST, RINGWOOD_FLOAT32, none, data, RINGWOOD_SUM,
             ringwood_rank(session));
    difference.AwaitIn(comm.Start(RINGWOOD_ALL_REDUCE, RINGWOOD_FLOAT32, data, data));
  });
}

TEST(Communicators, EndWithTheSession) {
  RunUnanswered([](ringwood_session* session, Members&, ringwood_work* work) {
    absl::Notification waits;
    std::thread waiter([&] {
      waits.Notify();
      EXPECT_NE(ringwood_wait(work, 600), RINGWOOD_OK);
    });
    waits.WaitForNotification();
    ringwood_close(session, nullptr);
    waiter.join();
    EXPECT_EQ(ringwood_done(work), 1);
    EXPECT_NE(ringwood_wait(work, 600), RINGWOOD_OK);
    ringwood_collective_call call{};
    call.size = sizeof call;
    ringwood_work* none = nullptr;
    EXPECT_EQ(ringwood_start(nullptr, &call, &none), RINGWOOD_INVALID);
    ringwood_work_free(work);
  });
}

TEST(Communicators, AForkedChildWaitsForNoCall) {
  RunUnanswered([](ringwood_session* session, Members&, ringwood_work* work) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(ringwood_done(work) == 1 && ringwood_wait(work, 600) == RINGWOOD_FORKED ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(ringwood_done(work), 0);
    ringwood_close(session, nullptr);
    ringwood_work_free(work);
  });
}

TEST(Communicators, WhatIsNoGroupAndNoCallIsRefused) {
  RunRanks(2, [](ringwood_session* session) {
    const int rank = ringwood_rank(session);
    ringwood_communicator* made = nullptr;
    const auto make = [&](std::vector<int> ranks, uint32_t number) {
      return ringwood_communicator_make(session, ranks.data(), ranks.size(), number, &made);
    };
    EXPECT_EQ(make({0, 2}, 1), RINGWOOD_INVALID);
    EXPECT_EQ(make({rank, rank}, 1), RINGWOOD_INVALID);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("twice"));
    EXPECT_EQ(make({1 - rank}, 1), RINGWOOD_INVALID);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("only members"));
    EXPECT_EQ(make({0, 1}, 0), RINGWOOD_INVALID);
    for (const size_t count : {size_t{0}, size_t{3}, SIZE_MAX}) {
      EXPECT_EQ(ringwood_communicator_make(session, &rank, count, 1, &made), RINGWOOD_INVALID);
      EXPECT_THAT(ringwood_last_error(), HasSubstr("ranks in a world of 2"));
    }
    ASSERT_EQ(make({0, 1}, 3), RINGWOOD_OK);
    ringwood_communicator* const first = made;
    EXPECT_EQ(make({0, 1}, 3), RINGWOOD_EXISTS);
    std::vector<int32_t> data(10);
    ringwood_collective_call call{};
    call.size = sizeof call;
    call.collective = RINGWOOD_ALL_REDUCE;
    call.type = RINGWOOD_INT32;
    call.input = call.output = data.data();
    call.input_elements = 10;
    call.output_elements = 9;
    ringwood_work* work = nullptr;
    const auto refused = [&](const char* words) {
      EXPECT_EQ(ringwood_start(first, &call, &work), RINGWOOD_INVALID);
      EXPECT_THAT(ringwood_last_error(), HasSubstr(words));
    };
    refused("input and output differ");
    call.output_elements = 10;
    call.op = RINGWOOD_AVERAGE;
    refused("an average of int32");
    call.op = 17;
    refused("no operation 17");
    call.op = RINGWOOD_SUM;
    call.collective = 9;
    refused("no collective 9");
    call.collective = RINGWOOD_BROADCAST;
    call.root = 2;
    refused("no root 2");
    call.root = 0;
    // Together they are 10 elements again, past the end of 64 bits.
    const uint64_t shares[] = {UINT64_MAX, 11};
    call.shares = call.receives = shares;
    std::vector<int32_t> more(11);
    for (const int collective : {RINGWOOD_ALL_GATHER, RINGWOOD_ALL_TO_ALL}) {
      call.collective = collective;
      call.input = collective == RINGWOOD_ALL_GATHER ? more.data() : data.data();
      call.input_elements = collective == RINGWOOD_ALL_GATHER ? more.size() : data.size();
      refused("the shares are not one for each rank");
    }
    call.type = 99;
    refused("no element type 99");
    ringwood_communicator_free(first);
  });
}

TEST(Communicators, InputAndOutputAreInPlaceOrApart) {
  using enum CollectiveVerb;
  const struct {
    CollectiveVerb verb;
    Range in, out;
    bool taken;
  } cases[] = {{kAllReduce, {0, 8}, {0, 8}, true},      {kAllReduce, {8, 8}, {0, 8}, true},
               {kAllReduce, {0, 8}, {7, 8}, false},     {kAllReduce, {7, 8}, {0, 8}, false},
               {kReduce, {0, 8}, {0, 8}, true},         {kReduce, {0, 8}, {4, 8}, false},
               {kReduceScatter, {0, 8}, {4, 4}, true},  {kReduceScatter, {0, 8}, {8, 4}, true},
               {kReduceScatter, {0, 8}, {0, 4}, false}, {kAllGather, {4, 4}, {0, 8}, true},
               {kAllGather, {8, 4}, {0, 8}, true},      {kAllGather, {5, 4}, {0, 8}, false},
               {kAllToAll, {0, 8}, {8, 8}, true},       {kAllToAll, {0, 8}, {0, 8}, false}};
  std::vector<int32_t> memory(20);
  for (const auto& [verb, in, out, taken] : cases) {
    CollectiveCall call;
    call.verb = verb, call.type = DataType::kInt32, call.root = 1;
    call.input = std::as_bytes(std::span(memory).subspan(in.begin, in.count));
    call.output = std::as_writable_bytes(std::span(memory).subspan(out.begin, out.count));
    if (verb == kAllToAll) call.shares = call.receives = {4, 4};
    const Status status = Check(call, 1, 2);
    EXPECT_EQ(status.ok(), taken) << NameOf(verb) << in.begin << out.begin << status;
    EXPECT_TRUE(taken || status.code() == StatusCode::kInvalidArgument) << status;
  }
}

}  // namespace
}  // namespace ringwood
