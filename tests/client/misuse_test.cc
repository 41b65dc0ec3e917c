// Wrong use of the C interface: a code and a sentence, never a crash or a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "client/c/handle.h"
#include "include/ringwood_pull.h"
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

// What is logged goes to descriptor 2, whoever has it.
TEST(Misuse, AClosedStandardDescriptorIsNotGivenToASocket) {
  const int kept = dup(STDIN_FILENO);
  close(STDIN_FILENO);
  ringwood_options options{};
  options.size = sizeof options;
  options.coordinator = "127.0.0.1:1";
  options.world = 1;
  options.join_timeout_seconds = 0.1;
  ringwood_session* session = nullptr;
  EXPECT_NE(ringwood_open(&options, &session), RINGWOOD_OK);
  EXPECT_EQ(std::filesystem::read_symlink("/proc/self/fd/0"), "/dev/null");
  ASSERT_EQ(dup2(kept, STDIN_FILENO), STDIN_FILENO);
  close(kept);
}

// Every call that returns a code, with arguments that would be right in an open session.
std::vector<int> EveryCall(ringwood_session* session) {
  std::vector<float> data(10);
  uint64_t bytes = 0;
  int id = 0;
  ringwood_checkpoint_progress progress{};
  progress.size = sizeof progress;
  return {Register(session, "other", &data, &id),
          ringwood_rebind(session, 0, data.data()),
          ringwood_agree(session),
          ringwood_begin_step(session, 1),
          ringwood_loaded(session),
          ringwood_ask_to_end(session),
          ringwood_leave_after_step(session),
          ringwood_leave(session, 0),
          ringwood_ready(session, 0),
          ringwood_finish_step(session, nullptr),
          ringwood_replay(session, nullptr),
          ringwood_note(session, "", 0),
          ringwood_state_item(session, "state", data.data(), 4),
          ringwood_state_on_request(session, 1),
          ringwood_received(session, "state", data.data(), 4),
          ringwood_residual(session, 0, data.data(), data.size()),
          ringwood_allreduce(session, data.data(), data.size(), RINGWOOD_FLOAT32, RINGWOOD_SUM),
          ringwood_broadcast(session, data.data(), 4, 0),
          ringwood_share(session, 10, &bytes, &bytes),
          ringwood_reduce_scatter(session, data.data(), 10, RINGWOOD_FLOAT32, RINGWOOD_SUM),
          ringwood_all_gather(session, data.data(), 10, RINGWOOD_FLOAT32),
          ringwood_checkpoint(session, nullptr, 0),
          ringwood_checkpoint_wait(session),
          ringwood_checkpoint_state(session, &progress),
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
    ringwood_step_result result{};
    EXPECT_EQ(ringwood_finish_step(session, &result), RINGWOOD_INVALID);  // its size is not set
    EXPECT_EQ(ringwood_step(session), 0u);
    result.size = sizeof result;
    EXPECT_EQ(ringwood_finish_step(session, &result), RINGWOOD_OK);
    EXPECT_EQ(result.step, 1u);
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
    const auto negative = static_cast<uint64_t>(int64_t{-1});
    EXPECT_EQ(ringwood_broadcast(session, data.data(), negative, 0), RINGWOOD_INVALID);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("more than memory can have"));
    EXPECT_EQ(ringwood_state_item(session, "w", data.data(), negative), RINGWOOD_INVALID);
    ringwood_item item{};
    item.size = sizeof item;
    item.name = "w";
    item.data = data.data();
    item.bytes = negative;
    item.scope = RINGWOOD_SHARED;
    EXPECT_EQ(ringwood_checkpoint(session, &item, 1), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_reduce_scatter(session, nullptr, 3, RINGWOOD_FLOAT32, RINGWOOD_SUM),
              RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_reduce_scatter(session, data.data(), 3, RINGWOOD_FLOAT32, 9),
              RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_all_gather(session, data.data(), 3, 99), RINGWOOD_INVALID);
    EXPECT_EQ(ringwood_share(session, 3, nullptr, nullptr), RINGWOOD_INVALID);
  });
}

TEST(Misuse, NumbersAndNamesOfTensorsAreChecked) {
  RunC(1, [](ringwood_session* session) {
    std::vector<float> data(10);
    const auto refusal = [&](auto change) -> std::string {
      ringwood_tensor tensor{};
      tensor.size = sizeof tensor;
      tensor.name = "w";
      tensor.data = data.data();
      tensor.elements = data.size();
      tensor.type = RINGWOOD_FLOAT32;
      change(&tensor);
      const int code = ringwood_register(session, &tensor, nullptr);
      return code == RINGWOOD_INVALID ? ringwood_last_error() : "";
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THAT(refusal([&](auto* t) { t->momentum = nan; }), HasSubstr("momentum = nan"));
    EXPECT_THAT(refusal([&](auto* t) { t->momentum = 1; }), HasSubstr("momentum = 1"));
    EXPECT_THAT(refusal([&](auto* t) { t->clip_norm = nan; }), HasSubstr("clip_norm = nan"));
    EXPECT_THAT(refusal([&](auto* t) { t->wire_reach = nan; }), HasSubstr("wire_reach = nan"));
    EXPECT_THAT(refusal([&](auto* t) { t->density = nan; }), HasSubstr("density = nan"));
    EXPECT_THAT(refusal([&](auto* t) { t->density = -1; }), HasSubstr("'w': density = -1"));
    EXPECT_THAT(refusal([&](auto* t) { t->turn = 1; }), HasSubstr("has turn 1 of 0"));
    EXPECT_THAT(refusal([&](auto* t) { t->turns = -1; }), HasSubstr("has turn 0 of -1"));
    EXPECT_THAT(refusal([&](auto* t) { t->name = "\xff"; }), HasSubstr("not UTF-8"));
    EXPECT_THAT(refusal([&](auto* t) { t->name = "a\nb"; }), HasSubstr("control character"));
    EXPECT_THAT(refusal([&](auto* t) { t->name = ""; }), HasSubstr("empty"));
    EXPECT_THAT(refusal([&](auto* t) { t->size = SIZE_MAX; }),
                HasSubstr("sizeof(ringwood_tensor)"));
    EXPECT_THAT(refusal([&](auto* t) { t->elements = uint64_t{1} << 32; }), HasSubstr("2^32 - 1"));
    ringwood_item item{};
    item.size = sizeof item;
    item.name = "line\nbreak";
    item.scope = RINGWOOD_SHARED;
    EXPECT_EQ(ringwood_checkpoint(session, &item, 1), RINGWOOD_INVALID);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("control character"));
    ringwood_options options{};
    options.size = SIZE_MAX;
    ringwood_session* opened = nullptr;
    EXPECT_EQ(ringwood_open(&options, &opened), RINGWOOD_INVALID);
  });
}

// The address space may grow by this much and no more, until its end.
class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t more) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + more;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

TEST(Misuse, MemoryThatCannotBeHadIsAnErrorWithItsSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow needs the address space";
#endif
  const MemoryLimit limit(uint64_t{4} << 30);
  RunC(2, [](ringwood_session* session) {
    std::vector<float> data(10);
    ringwood_tensor tensor{};
    tensor.size = sizeof tensor;
    tensor.name = "huge";
    tensor.data = data.data();  // not read before ready
    tensor.elements = UINT32_MAX;
    tensor.type = RINGWOOD_FLOAT32;
    tensor.route = "dense";
    ASSERT_EQ(ringwood_register(session, &tensor, nullptr), RINGWOOD_OK);
    EXPECT_EQ(ringwood_agree(session), RINGWOOD_EXHAUSTED);
    EXPECT_THAT(ringwood_last_error(), HasSubstr("17179869180 bytes were asked for"));
    EXPECT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_EXHAUSTED);  // the session is over
  });
}

TEST(Misuse, EveryCodeHasASentenceAndAnExitCode) {
  for (int code = RINGWOOD_OK; code <= RINGWOOD_ENDED; ++code) {
    EXPECT_STRNE(ringwood_strerror(code), "unknown code") << code;
  }
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_OK), 0);
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_ENDED), 0);
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_INVALID), 78);
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_NOT_FOUND), 78);
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_UNAVAILABLE), 75);
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_TIMED_OUT), 75);
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_INTERNAL), 1);
  EXPECT_EQ(ringwood_exit_code(999), 1);
}

// A thread sanitizer's test: the answers change under the eyes of those who look.
TEST(Misuse, AnyThreadMayLookWhileTheTrainerTrains) {
  RunC(1, [](ringwood_session* session) {
    std::vector<float> data(10), more(10);
    int id = -1, other = -1;
    ASSERT_EQ(Register(session, "w", &data, &id), RINGWOOD_OK);
    std::atomic<bool> over{false};
    std::thread looks([&] {
      while (!over) {
        (void)ringwood_step(session);
        (void)ringwood_rank(session);
        (void)ringwood_resumed(session);
        (void)ringwood_ready(session, 7);  // there is none
      }
    });
    ASSERT_EQ(Register(session, "more", &more, &other), RINGWOOD_OK);
    for (int step = 0; step < 20; ++step) {
      ASSERT_EQ(ringwood_ready(session, id), RINGWOOD_OK);
      ASSERT_EQ(ringwood_ready(session, other), RINGWOOD_OK);
      ASSERT_EQ(ringwood_finish_step(session, nullptr), RINGWOOD_OK);
      EXPECT_STREQ(ringwood_route(session, id), "ring");
    }
    over = true;
    looks.join();
    EXPECT_EQ(ringwood_step(session), 20u);
  });
}

TEST(Misuse, EveryCallWithoutASessionIsInvalid) {
  EXPECT_THAT(EveryCall(nullptr), Each(RINGWOOD_INVALID));
  EXPECT_THAT(ringwood_last_error(), HasSubstr("NULL"));
  EXPECT_EQ(ringwood_close(nullptr, nullptr), RINGWOOD_OK);
  EXPECT_EQ(ringwood_rank(nullptr), -1);
  EXPECT_EQ(ringwood_plan_text(nullptr), nullptr);
}

TEST(Misuse, AStepResultThatNoStepFilledIsInvalid) {
  ringwood_sampler_options options{};
  options.size = sizeof options;
  options.samples = options.batch = 10;
  options.world = 1;
  ringwood_sampler* sampler = nullptr;
  ASSERT_EQ(ringwood_sampler_make(&options, &sampler), RINGWOOD_OK);
  ringwood_step_result result{};
  result.size = sizeof result;
  EXPECT_EQ(ringwood_sampler_committed(sampler, &result), RINGWOOD_INVALID);
  const int member = 0;
  result.members = &member;
  result.member_count = result.contributor_count = 1;
  EXPECT_EQ(ringwood_sampler_committed(sampler, &result), RINGWOOD_INVALID);
  EXPECT_THAT(ringwood_last_error(), HasSubstr("no members or contributors"));
  ringwood_sampler_free(sampler);
}

TEST(Misuse, APullFromWhatIsNoAddressIsInvalidAndNotTriedAgain) {
  ringwood_pull_options options{};
  options.size = sizeof options;
  options.server = "nowhere";
  ringwood_pulled* pulled = nullptr;
  EXPECT_EQ(ringwood_pull(&options, &pulled), RINGWOOD_INVALID);
  EXPECT_THAT(ringwood_last_error(), HasSubstr("\"nowhere\" is not HOST:PORT"));
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

TEST(Misuse, AForkedChildOfAProcessThatOpenedASessionOpensNone) {
  ringwood_options options{};
  options.size = sizeof options;
  options.coordinator = "127.0.0.1:1";  // nobody is there
  options.world = 1;
  options.join_timeout_seconds = 0.1;
  ringwood_session* session = nullptr;
  EXPECT_NE(ringwood_open(&options, &session), RINGWOOD_OK);
  const pid_t child = fork();
  if (child == 0) {
    const int code = ringwood_open(&options, &session);
    const std::string sentence = ringwood_last_error();
    _exit(code == RINGWOOD_FORKED && sentence.find("spawn") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
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
