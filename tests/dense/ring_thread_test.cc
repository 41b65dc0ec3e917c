// A device's ring on a thread of its own: over a stand-in that blocks its thread as a poll of NCCL
// would.
#include "dense/cuda/ring_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"

namespace ringwood {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

// What happened to the ring on the other thread.
struct Story {
  absl::Notification busy;     // AllReduce is running
  absl::Notification go_on;    // lets it
  absl::Notification gone;     // the ring was destroyed, and its loop has no answer left
  Loop* loop = nullptr;        // its own
  bool on_its_thread = false;  // all calls were, and the end
};

class SlowRing : public DeviceRing {
 public:
  explicit SlowRing(Story* story) : story_(story) { story_->on_its_thread = true; }
  ~SlowRing() override {
    Note();
    story_->loop->Post([story = story_] { story->gone.Notify(); });
  }
  void AllReduce(const DeviceReduction& reduction,
                 std::function<void(StatusOr<AllReduceResult>)> done) override {
    Note();
    if (!story_->busy.HasBeenNotified()) story_->busy.Notify();
    story_->go_on.WaitForNotificationWithTimeout(kLong);
    if (reduction.round == 1) return done(AllReduceResult{7, 8});
    pending_.push_back(std::move(done));
  }
  void Broadcast(const DeviceBroadcast&, std::function<void(Status)> done) override {
    Note();
    done(Invalid("no broadcast"));
  }
  // Answers by its own loop, as the ring over NCCL does.
  Status Close(const Status& reason) override {
    Note();
    for (auto& done : pending_) {
      story_->loop->Post([done, reason] { done(Annotate(reason, "a call")); });
    }
    pending_.clear();
    return OkStatus();
  }

 private:
  void Note() { story_->on_its_thread &= story_->loop->OnThread(); }
  Story* const story_;
  std::vector<std::function<void(StatusOr<AllReduceResult>)>> pending_;
};

constexpr double kSilenceSeconds = 1000;

std::unique_ptr<DeviceRing> Make(Loop* net, Story* story,
                                 double silence_seconds = kSilenceSeconds) {
  std::unique_ptr<DeviceRing> ring;
  EXPECT_TRUE(net->Call(
                     [&]() -> Status {
                       const auto make = [story](Loop* own) {
                         story->loop = own;
                         return StatusOr<std::unique_ptr<DeviceRing>>(
                             std::make_unique<SlowRing>(story));
                       };
                       RW_ASSIGN_OR_RETURN(ring, MakeRingThread(net, make, silence_seconds));
                       return OkStatus();
                     },
                     Seconds(60))
                  .ok());
  return ring;
}

void On(Loop* net, std::function<void()> act) {
  EXPECT_TRUE(net->Call(
                     [&] {
                       act();
                       return OkStatus();
                     },
                     Seconds(60))
                  .ok());
}

TEST(RingThread, AnAllReduceThatPollsHoldsUpNobodyElse) {
  Story story;
  Loop net("net");
  auto ring = Make(&net, &story);
  absl::Notification answered;
  bool on_net = false;
  uint64_t digest = 0;
  On(&net, [&] {
    DeviceReduction reduction;
    reduction.round = 1;
    ring->AllReduce(reduction, [&](StatusOr<AllReduceResult> result) {
      on_net = net.OnThread();
      digest = result.ok() ? result->digest : 0;
      answered.Notify();
    });
  });
  ASSERT_TRUE(story.busy.WaitForNotificationWithTimeout(kLong));
  On(&net, [] {});  // the net loop does other things meanwhile
  EXPECT_FALSE(answered.HasBeenNotified());
  story.go_on.Notify();
  ASSERT_TRUE(answered.WaitForNotificationWithTimeout(kLong));
  EXPECT_TRUE(on_net);
  EXPECT_EQ(digest, 7u);
  Status refused;
  absl::Notification heard;
  On(&net, [&] {
    ring->Broadcast({}, [&](Status status) {
      refused = status;
      heard.Notify();
    });
  });
  ASSERT_TRUE(heard.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(Message(refused), "no broadcast");
  On(&net, [&] { ring.reset(); });
  EXPECT_TRUE(story.gone.HasBeenNotified());
  EXPECT_TRUE(story.on_its_thread);
}

// Many times: what the ring leaves on its own loop may or may not run before the loop ends.
TEST(RingThread, CloseAnswersWhatIsUnderWayAndWhatComesLater) {
  for (int time = 0; time < 50; ++time) {
    Story story;
    story.go_on.Notify();
    Loop net("net");
    auto ring = Make(&net, &story);
    std::vector<std::string> answers;
    On(&net, [&] {
      const auto note = [&](StatusOr<AllReduceResult> result) {
        answers.push_back(Message(result.status()));
      };
      ring->AllReduce({}, note);
      ring->AllReduce({}, note);
      EXPECT_TRUE(ring->Close(Unavailable("rank 2 fell silent")).ok());
      ring->AllReduce({}, note);
      EXPECT_TRUE(ring->Close(Internal("again")).ok());
    });
    On(&net, [] {});  // the answers were posted before
    EXPECT_THAT(answers, testing::ElementsAre("a call: rank 2 fell silent",
                                              "a call: rank 2 fell silent", "rank 2 fell silent"));
    EXPECT_TRUE(story.on_its_thread);
  }
}

// As a call of CUDA's that waits for another rank's kernel.
TEST(RingThread, AThreadThatHangsIsGivenUpAndEveryCallIsAnsweredOnce) {
  Story story;
  Loop net("net");
  auto ring = Make(&net, &story, 0.2);
  std::vector<Status> answers;
  absl::Notification two;
  const auto note = [&](StatusOr<AllReduceResult> result) {
    answers.push_back(result.status());
    if (answers.size() == 2) two.Notify();
  };
  On(&net, [&] {
    ring->AllReduce({}, note);
    ring->AllReduce({}, note);
  });
  ASSERT_TRUE(two.WaitForNotificationWithTimeout(kLong));
  On(&net, [&] { ring->AllReduce({}, note); });
  On(&net, [] {});
  ASSERT_EQ(answers.size(), 3u);
  for (const Status& answer : answers) {
    EXPECT_EQ(answer.code(), StatusCode::kDeadlineExceeded);
    EXPECT_NE(Message(answer).find("hangs in CUDA or NCCL"), std::string::npos);
  }
  On(&net, [&] {
    EXPECT_EQ(ring->Close(Unavailable("rank 2 fell silent")).code(), StatusCode::kDeadlineExceeded);
    ring.reset();
  });
  story.go_on.Notify();  // answers that come after all are dropped
  ASSERT_TRUE(story.gone.WaitForNotificationWithTimeout(kLong));
  On(&net, [] {});
  EXPECT_EQ(answers.size(), 3u);
}

// A loop whose memory nobody may touch once it is destroyed.
class GuardedLoop {
 public:
  GuardedLoop()
      : page_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    loop_ = new (page_) Loop("net");
  }
  ~GuardedLoop() { munmap(page_, kBytes); }
  Loop* get() { return loop_; }
  void Destroy() {
    loop_->~Loop();
    mprotect(page_, kBytes, PROT_NONE);
  }

 private:
  static constexpr size_t kBytes = 4096;
  static_assert(sizeof(Loop) <= kBytes);
  void* const page_;
  Loop* loop_;
};

TEST(RingThread, AThreadThatWasGivenUpMayAnswerWhenTheLoopIsGone) {
  Story story;
  GuardedLoop net;
  auto ring = Make(net.get(), &story, 0.2);
  absl::Notification answered;
  On(net.get(), [&] {
    DeviceReduction reduction;
    reduction.round = 1;
    ring->AllReduce(reduction, [&](const StatusOr<AllReduceResult>&) { answered.Notify(); });
  });
  ASSERT_TRUE(answered.WaitForNotificationWithTimeout(kLong));  // that the thread hangs
  On(net.get(), [&] { ring.reset(); });
  net.Destroy();
  story.go_on.Notify();
  EXPECT_TRUE(story.gone.WaitForNotificationWithTimeout(kLong));
}

TEST(RingThread, ARingWhoseAnswersComeSlowlyIsNotGivenUp) {
  Story story;
  Loop net("net");
  auto ring = Make(&net, &story, 10);
  absl::Notification answered;
  Status status = Internal("none");
  On(&net, [&] {
    DeviceReduction reduction;
    reduction.round = 1;
    ring->AllReduce(reduction, [&](StatusOr<AllReduceResult> result) {
      status = result.status();
      answered.Notify();
    });
  });
  absl::SleepFor(absl::Milliseconds(1200));  // two looks at it
  story.go_on.Notify();
  ASSERT_TRUE(answered.WaitForNotificationWithTimeout(kLong));
  EXPECT_TRUE(status.ok()) << Message(status);
  On(&net, [&] { ring.reset(); });
}

TEST(RingThread, ARingThatCannotBeMadeSaysWhy) {
  Loop net("net");
  On(&net, [&] {
    const auto make = [](Loop*) -> StatusOr<std::unique_ptr<DeviceRing>> {
      return Unavailable("no NCCL");
    };
    const auto ring = MakeRingThread(&net, make, kSilenceSeconds);
    EXPECT_EQ(Message(ring.status()), "no NCCL");
  });
}

}  // namespace
}  // namespace ringwood
