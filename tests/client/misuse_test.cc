// Wrong use of the C interface: a code and a sentence, never a crash or a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <limits>
#include <thread>

#include "client/c_handle.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Ranks that hold what ringwood_open would have given them.
void RunC(int world, const std::function<void(ringwood_session*)>& rank) {
  RunOwningJob({.world = world}, [&](std::unique_ptr<Session> session, GatheringCoordinator&) {
    auto* const handle = new ringwood_session(std::move(session));
    rank(handle);
    ringwood_close(handle, nullptr);
    delete handle;
  });
}

int Register(ringwood_session* session, const char* name, std::vector<float>* data, int* id) {
  ringwood_tensor tensor{};
  tensor.size = sizeof tensor;
  tensor.name = name;
  tensor.data = data->data();
  tensor.elements = data->size();
  tensor.type = RINGWOOD_FLOAT32;
  tensor.route = "dense";
  return ringwood_register(session, &tensor, id);
}

// Every call that returns a code, with arguments that would be right in an open session.
std::vector<int> EveryCall(ringwood_session* session) {
  std::vector<float> data(10);
  uint64_t bytes = 0;
  int id = 0;
  return {Register(session, "other", &data, &id),
          ringwood_rebind(session, 0, data.data()),
          ringwood_agree(session),
          ringwood_begin_step(session, 1),
          ringwood_ready(session, 0),
          ringwood_finish_step(session, nullptr),
          ringwood_residual(session, 0, data.data(), data.size()),
          ringwood_allreduce(session, data.data(), data.size(), RINGWOOD_FLOAT32, RINGWOOD_SUM),
          ringwood_broadcast(session, data.data(), 4, 0),
          ringwood_share(session, 10, &bytes, &bytes),
          ringwood_reduce_scatter(session, data.data(), 10, RINGWOOD_FLOAT32, RINGWOOD_SUM),
          ringwood_all_gather(session, data.data(), 10, RINGWOOD_FLOAT32),
          ringwood_checkpoint(session, nullptr, 0),
          ringwood_checkpoint_wait(session),
          ringwood_restore_bytes(session, "w", RINGWOOD_SHARED, &bytes),
          ringwood_restore(session, "w", RINGWOOD_SHARED, data.data(), 4)};
}

TEST(Misuse, AStepWithoutItsGradientsIsRefusedAndStaysOpen) {
  RunC(2, [](ringwood_session* session) {
    std::vector<float> data(10, 1.0f), more(10, 1.0f);
    int first = -1, second = -1;
    ASSERT_EQ(Register(session, "first", &data, &first), RINGWOOD_OK);
    ASSERT_EQ(Register(session, "second", &more, &second), RINGWOOD_OK);
    EXPECT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_REFUSED);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("2 of 2 gradients are not ready"));
    ASSERT_EQ(ringwood_ready(session, first), RINGWOOD_OK);
    EXPECT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_REFUSED);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("second"));
    EXPECT_EQ(ringwood_ready(session, first), RINGWOOD_EXISTS);
    EXPECT_EQ(Register(session, "late", &more, nullptr), RINGWOOD_REFUSED);
    EXPECT_EQ(Register(session, "first", &more, nullptr), RINGWOOD_REFUSED);
    ASSERT_EQ(ringwood_ready(session, second), RINGWOOD_OK);
    EXPECT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_OK);
    EXPECT_THAT(more, Each(1.0f));
  });
}

TEST(Misuse, WhatIsNotAnArgumentIsInvalid) {
  RunC(1, [](ringwood_session* session) {
    std::vector<float> data(10), none;
    int id = -1;
    ASSERT_EQ(Register(session, "w", &data, &id), RINGWOOD_OK);
    EXPECT_EQ(Register(session, "w", &data, nullptr), RINGWOOD_EXISTS);
    EXPECT_EQ(Register(session, "empty", &none, nullptr), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_register(session, nullptr, &id), RINGWOOD_INVALID);
    ringwood_tensor unsized{};
    EXPECT_EQ(ringwood_register(session, &unsized, &id), RINGWOOD_INVALID);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("sizeof"));
    for (int unknown : {-1, 1, std::numeric_limits<int>::max()}) {
      EXPECT_EQ(ringwood_ready(session, unknown), RINGWOOD_INVALID);
      EXPECT_EQ(ringwood_rebind(session, unknown, data.data()), RINGWOOD_INVALID);
      EXPECT_EQ(ringwood_residual(session, unknown, data.data(), 10), RINGWOOD_INVALID);
      EXPECT_EQ(ringwood_route(session, unknown), nullptr);
    }
    EXPECT_EQ(ringwood_rebind(session, id, nullptr), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_residual(session, id, data.data(), 11), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_begin_step(session, std::numeric_limits<double>::quiet_NaN()),
              RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_allreduce(session, nullptr, 3, RINGWOOD_FLOAT32, RINGWOOD_SUM),
              RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_allreduce(session, data.data(), 3, 99, RINGWOOD_SUM), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_allreduce(session, data.data(), 3, RINGWOOD_FLOAT32, 9), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_broadcast(session, data.data(), 4, 7), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_reduce_scatter(session, nullptr, 3, RINGWOOD_FLOAT32, RINGWOOD_SUM),
              RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_reduce_scatter(session, data.data(), 3, RINGWOOD_FLOAT32, 9),
              RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_all_gather(session, data.data(), 3, 99), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_share(session, 3, nullptr, nullptr), RINGWOOD_INVALID);
  });
}

TEST(Misuse, EveryCallWithoutASessionIsInvalid) {
  EXPECT_THAT(EveryCall(nullptr), Each(RINGWOOD_INVALID));
  EXPECT_THAT(ringwood_last_error(), HasSubstr("NULL"));
  EXPECT_EQ(ringwood_close(nullptr, nullptr), RINGWOOD_OK);
  EXPECT_EQ(ringwood_rank(nullptr), -1);
  EXPECT_EQ(ringwood_plan_text(nullptr), nullptr);
}

TEST(Misuse, EveryCallAfterCloseIsRefused) {
  RunC(2, [](ringwood_session* session) {
    std::vector<float> data(10);
    ASSERT_EQ(Register(session, "w", &data, nullptr), RINGWOOD_OK);
    ASSERT_EQ(ringwood_close(session, nullptr), RINGWOOD_OK);
    EXPECT_THAT(EveryCall(session), Each(RINGWOOD_REFUSED));
    EXPECT_THAT(ringwood_last_error(), HasSubstr("closed"));
    EXPECT_EQ(ringwood_close(session, nullptr), RINGWOOD_REFUSED);
    EXPECT_EQ(ringwood_rank(session), -1);
    EXPECT_EQ(ringwood_world(session), -1);
    EXPECT_EQ(ringwood_plan_text(session), nullptr);
    EXPECT_EQ(ringwood_route(session, 0), nullptr);
  });
}

TEST(Misuse, AForkedChildHasNoSessionAndItsParentGoesOn) {
  RunC(1, [](ringwood_session* session) {
    std::vector<float> data(10, 2.0f);
    int id = -1;
    ASSERT_EQ(Register(session, "w", &data, &id), RINGWOOD_OK);
    ASSERT_EQ(ringwood_begin_step(session, 1), RINGWOOD_OK);
    const pid_t child = fork();
    if (child == 0) {
      int forked = ringwood_close(session, nullptr) == RINGWOOD_FORKED;
      for (int code : EveryCall(session)) forked &= code == RINGWOOD_FORKED;
      _exit(forked && ringwood_rank(session) == -1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    ASSERT_EQ(ringwood_ready(session, id), RINGWOOD_OK);
    EXPECT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_OK);
  });
}

TEST(Misuse, ASecondThreadIsRefusedWhileOneIsInACallAndReadyIsNot) {
  std::atomic<bool> go{false};
  RunC(2, [&](ringwood_session* session) {
    std::vector<float> data(10, 1.0f), more(10, 1.0f);
    int first = -1, second = -1;
    ASSERT_EQ(Register(session, "first", &data, &first), RINGWOOD_OK);
    ASSERT_EQ(Register(session, "second", &more, &second), RINGWOOD_OK);
    ASSERT_EQ(ringwood_agree(session), RINGWOOD_OK);
    if (ringwood_rank(session) == 1) {  // rank 0 waits for it
      while (!go) std::this_thread::yield();
      std::thread([&] { EXPECT_EQ(ringwood_ready(session, first), RINGWOOD_OK); }).join();
      ASSERT_EQ(ringwood_ready(session, second), RINGWOOD_OK);
      EXPECT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_OK);
      return;
    }
    ASSERT_EQ(ringwood_ready(session, first), RINGWOOD_OK);
    ASSERT_EQ(ringwood_ready(session, second), RINGWOOD_OK);
    std::thread waits([&] { EXPECT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_OK); });
    while (!session->taken) std::this_thread::yield();
    EXPECT_EQ(ringwood_begin_step(session, 1), RINGWOOD_REFUSED);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("another thread"));
    EXPECT_EQ(ringwood_close(session, "in the middle of a call"), RINGWOOD_REFUSED);
    EXPECT_EQ(ringwood_ready(session, first), RINGWOOD_EXISTS);
    EXPECT_EQ(ringwood_rank(session), 0);
    go = true;
    waits.join();
    EXPECT_EQ(ringwood_step(session), 1u);
  });
}

TEST(Misuse, TheSessionEndsBesideThreadsThatStillAnnounce) {
  RunC(1, [](ringwood_session* session) {
    std::vector<float> data(10);
    int id = -1;
    ASSERT_EQ(Register(session, "w", &data, &id), RINGWOOD_OK);
    ASSERT_EQ(ringwood_agree(session), RINGWOOD_OK);
    std::atomic<bool> over{false};
    std::thread announces([&] {
      while (!over) (void)ringwood_ready(session, id);
    });
    EXPECT_EQ(ringwood_close(session, nullptr), RINGWOOD_OK);
    EXPECT_EQ(ringwood_ready(session, id), RINGWOOD_REFUSED);
    over = true;
    announces.join();
  });
}

TEST(Misuse, TwoSessionsOfOneProcessDoNotMeet) {
  RunC(1, [](ringwood_session* one) {
    RunC(1, [&](ringwood_session* two) {
      std::vector<float> data(10, 3.0f);
      int id = -1;
      for (ringwood_session* session : {one, two}) {
        ASSERT_EQ(Register(session, "w", &data, &id), RINGWOOD_OK);
        ASSERT_EQ(ringwood_ready(session, id), RINGWOOD_OK);
      }
      EXPECT_EQ(ringwood_close(two, "it ended on its own"), RINGWOOD_OK);
      EXPECT_EQ(ringwood_finish_step(two, nullptr), RINGWOOD_REFUSED);
      EXPECT_EQ(ringwood_finish_step(one, nullptr), RINGWOOD_OK);
    });
  });
}

}  // namespace
}  // namespace ringwood
