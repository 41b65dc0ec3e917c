#include "base/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/log.h"

namespace ringwood {
namespace {

TEST(Loop, RunsTasksInOrderOnItsOwnThread) {
  Loop loop("test");
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(loop.Post([&order, i] { order.push_back(i); }));
  ASSERT_TRUE(loop.Call([&] { return loop.OnThread() ? OkStatus() : Internal("wrong thread"); },
                        Seconds(10))
                  .ok());
  EXPECT_FALSE(Loop::OnAnyThread());
  ASSERT_TRUE(loop.Call([] { return Loop::OnAnyThread() ? OkStatus() : Internal("no loop's"); },
                        Seconds(10))
                  .ok());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(Loop, AThreadThatCannotBeStartedIsNamedWithTheRemedy) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow needs the address space";
#endif
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  std::string why;
  std::list<Loop> loops;  // the first may get the stacks of threads that have ended
  setrlimit(RLIMIT_AS, &none);
  try {
    while (loops.size() < 100) loops.emplace_back("rw-test");
  } catch (const std::system_error& refused) {
    why = refused.what();
  } catch (const std::bad_alloc&) {
    why = "no memory for the list";
  }
  setrlimit(RLIMIT_AS, &before);
  EXPECT_THAT(why, testing::HasSubstr("the thread rw-test cannot be started"));
  EXPECT_THAT(why, testing::HasSubstr("ulimit -u"));
}

struct Standing {
  int nice = 0, policy = 0;
};
Standing StandingOfThisThread() {
  return {getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), sched_getscheduler(0)};
}

TEST(Loop, ABackgroundLoopLetsOthersGoFirst) {
  const Standing before = StandingOfThisThread();
  const auto standing_of = [](Loop& loop) {
    Standing seen;
    EXPECT_TRUE(
        loop.Call([&] { return seen = StandingOfThisThread(), OkStatus(); }, Seconds(20)).ok());
    return seen;
  };
  Loop prompt("prompt"), background("background", Loop::Pace::kBackground);
  EXPECT_EQ(standing_of(prompt).nice, before.nice);
  EXPECT_EQ(standing_of(prompt).policy, before.policy);
  EXPECT_EQ(standing_of(background).nice, std::min(19, before.nice + 10));
  EXPECT_EQ(standing_of(background).policy, SCHED_BATCH);
  EXPECT_EQ(StandingOfThisThread().nice, before.nice) << "of its thread alone";
}

TEST(Loop, TimersFireInOrderOfTime) {
  Loop loop("test");
  std::vector<int> order;
  std::atomic<bool> done{false};
  loop.Post([&] {
    loop.After(Seconds(0.02), [&] { order.push_back(2), done = true; });
    loop.After(Seconds(0.001), [&] { order.push_back(1); });
  });
  while (!done) usleep(1000);
  ASSERT_TRUE(loop.Call([] { return OkStatus(); }, Seconds(10)).ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

class Pipe : public Loop::Source {
 public:
  Pipe() : fd_(eventfd(0, EFD_NONBLOCK)) {}
  ~Pipe() override { close(fd_); }
  void Signal() {
    const uint64_t one = 1;
    ASSERT_EQ(write(fd_, &one, 8), 8);
  }
  int Descriptor() const override { return fd_; }
  bool Progress() override {
    uint64_t n;
    if (read(fd_, &n, 8) != 8) return false;
    ++seen;
    return true;
  }
  bool Arm() override { return true; }
  std::atomic<int> seen{0};

 private:
  int fd_;
};

TEST(Loop, ASleepingLoopWakesForItsSourceAndUsesNoCpu) {
  Pipe pipe;
  Loop loop("test");
  ASSERT_TRUE(loop.Call(
                      [&] {
                        loop.Attach(&pipe);
                        return OkStatus();
                      },
                      Seconds(10))
                  .ok());
  usleep(50'000);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  usleep(300'000);
  getrusage(RUSAGE_SELF, &after);
  const long used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1'000'000 +
                    after.ru_utime.tv_usec - before.ru_utime.tv_usec;
  EXPECT_LT(used, 150'000) << "microseconds of CPU in 0.3 s of sleep";
  pipe.Signal();
  for (int i = 0; i < 60'000 && pipe.seen == 0; ++i) usleep(1000);
  EXPECT_EQ(pipe.seen, 1);
  ASSERT_TRUE(loop.Call(
                      [&] {
                        loop.Detach(&pipe);
                        return OkStatus();
                      },
                      Seconds(10))
                  .ok());
}

// Says that it may be left alone, for an hour while it is `patient`.
class Sleeper : public Pipe {
 public:
  bool Arm() override {
    ++armed;
    return true;
  }
  Duration Nap() override {
    ++naps;
    return patient ? Seconds(3600) : Seconds(0.001);
  }
  std::atomic<bool> patient{true};
  std::atomic<int> naps{0}, armed{0};
};

// A call that found the loop awake leaves a wake-up behind, which ends the next nap: then again.
TEST(Loop, ASourceIsNotHeardDuringANapAndTasksDoNotWaitForIt) {
  Sleeper sleeper;
  Loop loop("test");
  const auto nothing = [] { return OkStatus(); };
  ASSERT_TRUE(loop.Call([&] { return loop.Attach(&sleeper), OkStatus(); }, Seconds(10)).ok());
  bool unheard = false;
  int before = 0;
  for (int attempt = 0; attempt < 50 && !unheard; ++attempt) {
    before = sleeper.seen;
    ASSERT_TRUE(loop.Call(nothing, Seconds(10)).ok());
    usleep(20'000);
    sleeper.Signal();
    usleep(20'000);
    unheard = sleeper.seen == before;
  }
  EXPECT_TRUE(unheard);
  ASSERT_TRUE(loop.Call(nothing, Seconds(10)).ok());  // an hour has not passed
  for (int i = 0; i < 60'000 && sleeper.seen == before; ++i) usleep(1000);
  EXPECT_EQ(sleeper.seen, before + 1);
  ASSERT_TRUE(loop.Call([&] { return loop.Detach(&sleeper), OkStatus(); }, Seconds(10)).ok());
}

TEST(Loop, ANapThatBroughtNothingIsFollowedBySleep) {
  Sleeper sleeper;
  sleeper.patient = false;
  Loop loop("test");
  ASSERT_TRUE(loop.Call([&] { return loop.Attach(&sleeper), OkStatus(); }, Seconds(10)).ok());
  while (sleeper.armed == 0) usleep(1000);
  EXPECT_GE(sleeper.naps, 1);
  const int seen = sleeper.seen;
  sleeper.Signal();
  for (int i = 0; i < 60'000 && sleeper.seen == seen; ++i) usleep(1000);
  EXPECT_EQ(sleeper.seen, seen + 1);
  ASSERT_TRUE(loop.Call([&] { return loop.Detach(&sleeper), OkStatus(); }, Seconds(10)).ok());
}

TEST(Loop, AFullMailboxRefuses) {
  Loop loop("test");
  absl::Notification begun, go;
  loop.Post([&] {
    begun.Notify();
    go.WaitForNotification();
  });
  begun.WaitForNotification();  // so it is in the mailbox no more
  size_t accepted = 0;
  while (loop.Post([] {})) ++accepted;
  EXPECT_EQ(accepted, Loop::kMaxTasks);
  go.Notify();
}

TEST(Loop, AFullMailboxHasAPlaceForWhatMustArrive) {
  Loop loop("test");
  absl::Notification begun, go, arrived;
  ASSERT_TRUE(loop.Post([&] {
    begun.Notify();
    go.WaitForNotification();
  }));
  begun.WaitForNotification();
  while (loop.Post([] {})) {
  }
  EXPECT_TRUE(loop.PostReserved([&] { arrived.Notify(); }));
  size_t more = 0;
  while (loop.PostReserved([] {})) ++more;
  EXPECT_EQ(more, Loop::kReservedTasks - 1);
  go.Notify();
  EXPECT_TRUE(arrived.WaitForNotificationWithTimeout(absl::Seconds(60)));
}

TEST(Loop, HasTheLabelOfWhoMadeIt) {
  SetLogLabel("job a");
  Loop loop("a loop");
  SetLogLabel("");
  std::string seen;
  EXPECT_TRUE(loop.Call([&] { return seen = LogLabel(), OkStatus(); }, Seconds(30)).ok());
  EXPECT_EQ(seen, "job a");
}

}  // namespace
}  // namespace ringwood
