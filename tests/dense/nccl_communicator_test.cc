// A communicator of NCCL's over a stand-in for the library: what it is asked, when it is ready for
// the next call, and how it is let go of.
#include "dense/cuda/nccl_communicator.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace ringwood {
namespace {

constexpr int kBroken = 3;  // ncclInternalError

// The library's state; its functions are plain pointers.
struct StandInLibrary {
  std::deque<int> states;          // the answers to "how are you"; the last one stays
  int finalized = nccl::kSuccess;  // what finalizing returns
  int asked = nccl::kSuccess;      // what asking returns, beside the answer
  int init = nccl::kInProgress;    // what joining returns
  const char* detail = "";
  std::string calls;  // those that end it, in their order
  std::string id;
  int world = 0, rank = -1, blocking = -1;

  int NextState() {
    const int state = states.front();
    if (states.size() > 1) states.pop_front();
    return state;
  }
};
StandInLibrary* standing_in = nullptr;

class Communicator : public testing::Test {
 protected:
  Communicator() { standing_in = &stand_in_; }
  ~Communicator() override { standing_in = nullptr; }

  static nccl::Library Library() {
    using Rank = nccl::Communicator;
    nccl::Library library;
    library.comm_init_rank_config = [](Rank** made, int world, nccl::Id id, int rank,
                                       nccl::Config* config) {
      if (standing_in->init != kBroken) *made = reinterpret_cast<Rank*>(standing_in);
      standing_in->world = world;
      standing_in->rank = rank;
      standing_in->id = std::string(id.bytes, sizeof id.bytes);
      standing_in->blocking = config->size == sizeof(nccl::Config) ? config->blocking : -1;
      return standing_in->init;
    };
    library.comm_get_async_error = [](Rank* asked, int* state) {
      EXPECT_EQ(asked, reinterpret_cast<Rank*>(standing_in));
      *state = standing_in->NextState();
      return standing_in->asked;
    };
    library.comm_finalize = [](Rank*) {
      standing_in->calls += "finalize ";
      return standing_in->finalized;
    };
    library.comm_destroy = [](Rank*) {
      standing_in->calls += "destroy";
      return static_cast<int>(nccl::kSuccess);
    };
    library.comm_abort = [](Rank*) {
      standing_in->calls += "abort";
      return static_cast<int>(nccl::kSuccess);
    };
    library.get_error_string = [](int) { return "internal error"; };
    library.get_last_error = [](Rank*) { return standing_in->detail; };
    return library;
  }

  static std::string IdOf(char byte) { return std::string(nccl::kIdBytes, byte); }

  // The calls with which it is let go of.
  std::string Released(bool orderly, int finalized, std::deque<int> states,
                       double patience_seconds = 60) {
    NcclCommunicator communicator(Library(), 0);
    EXPECT_TRUE(communicator.Join(2, IdOf('i')).ok());
    stand_in_.finalized = finalized;
    stand_in_.states = std::move(states);
    stand_in_.calls.clear();
    communicator.Release(orderly, patience_seconds);
    return stand_in_.calls;
  }

  StandInLibrary stand_in_;
};

TEST_F(Communicator, JoiningBlocksNobodyAndEndsWhenAllRanksHaveCome) {
  NcclCommunicator communicator(Library(), 2);
  EXPECT_EQ(communicator.get(), nullptr);
  EXPECT_FALSE(communicator.asking());
  EXPECT_TRUE(*communicator.Settle());  // a world of one asks nobody
  ASSERT_TRUE(communicator.Join(5, IdOf('x')).ok());
  EXPECT_EQ(stand_in_.world, 5);
  EXPECT_EQ(stand_in_.rank, 2);
  EXPECT_EQ(stand_in_.id, IdOf('x'));
  EXPECT_EQ(stand_in_.blocking, 0);
  stand_in_.states = {nccl::kInProgress};
  EXPECT_FALSE(*communicator.Settle());
  EXPECT_TRUE(communicator.asking());
  EXPECT_FALSE(communicator.ready());
  stand_in_.states = {nccl::kInProgress, nccl::kInProgress, nccl::kSuccess};
  while (!*communicator.Settle()) continue;
  EXPECT_FALSE(communicator.asking());
  EXPECT_TRUE(communicator.ready());
}

TEST_F(Communicator, ACallIsTakenWhenNcclSaysSo) {
  NcclCommunicator communicator(Library(), 0);
  ASSERT_TRUE(communicator.Join(2, IdOf('x')).ok());
  stand_in_.states = {nccl::kSuccess};
  ASSERT_TRUE(*communicator.Settle());
  ASSERT_TRUE(communicator.Called(nccl::kSuccess, "a sum").ok());
  EXPECT_FALSE(communicator.asking());
  ASSERT_TRUE(communicator.Called(nccl::kInProgress, "a sum").ok());
  EXPECT_TRUE(communicator.asking());
  EXPECT_TRUE(*communicator.Ask("an idle ring"));
  EXPECT_TRUE(communicator.asking());  // who looks at it meanwhile does not settle the call
  EXPECT_TRUE(*communicator.Settle());
  EXPECT_FALSE(communicator.asking());
}

TEST_F(Communicator, ErrorsSayWhoWhatAndWhatNcclSays) {
  stand_in_.init = kBroken;
  NcclCommunicator alone(Library(), 1);
  const Status join = alone.Join(4, IdOf('x'));
  EXPECT_EQ(join.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Message(join), "rank 1: join the ring: NCCL says \"internal error\"");
  stand_in_.init = nccl::kSuccess;
  NcclCommunicator communicator(Library(), 3);
  ASSERT_TRUE(communicator.Join(4, IdOf('x')).ok());
  stand_in_.states = {kBroken};
  stand_in_.detail = "no route";
  EXPECT_EQ(Message(communicator.Settle().status()),
            "rank 3: join the ring: NCCL says \"internal error\": no route");
  stand_in_.states = {nccl::kSuccess};
  ASSERT_TRUE(*communicator.Settle());
  stand_in_.detail = "";
  EXPECT_EQ(Message(communicator.Called(kBroken, "a sum")),
            "rank 3: a sum: NCCL says \"internal error\"");
  ASSERT_TRUE(communicator.Called(nccl::kInProgress, "a sum").ok());
  stand_in_.states = {kBroken};
  EXPECT_EQ(Message(communicator.Settle().status()),
            "rank 3: run a collective: NCCL says \"internal error\"");
  EXPECT_EQ(Message(communicator.Ask("an idle ring").status()),
            "rank 3: an idle ring: NCCL says \"internal error\"");
}

TEST_F(Communicator, OnlyWhatHasDeliveredEverythingIsNotAborted) {
  EXPECT_EQ(Released(true, nccl::kSuccess, {nccl::kSuccess}), "finalize destroy");
  EXPECT_EQ(Released(true, nccl::kInProgress, {nccl::kInProgress, nccl::kSuccess}),
            "finalize destroy");
  EXPECT_EQ(Released(true, nccl::kInProgress, {nccl::kInProgress}, 1e-3), "finalize abort");
  EXPECT_EQ(Released(true, nccl::kInProgress, {nccl::kInProgress, nccl::kRemoteError}),
            "finalize abort");
  EXPECT_EQ(Released(false, nccl::kSuccess, {nccl::kSuccess}), "abort");
}

// NCCL says that it is well, too, where the call itself has failed: the state is that of the calls
// before, and asking returns what the thread of the last one ended with.
TEST_F(Communicator, WhatCouldNotBeFinalizedIsAborted) {
  EXPECT_EQ(Released(true, kBroken, {nccl::kSuccess}), "finalize abort");
  stand_in_.asked = kBroken;
  EXPECT_EQ(Released(true, nccl::kSuccess, {nccl::kSuccess}), "finalize abort");
  EXPECT_EQ(Released(true, nccl::kInProgress, {nccl::kSuccess}), "finalize abort");
}

}  // namespace
}  // namespace ringwood
