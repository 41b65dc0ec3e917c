#include "timeline/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes down what it is told; the test reads it after the job.
struct Notes {
  absl::Mutex mutex;
  std::vector<std::string> lines;
  void Add(const std::string& line) {
    absl::MutexLock lock(&mutex);
    lines.push_back(line);
  }
};

class NoteTaker : public Observer {
 public:
  explicit NoteTaker(Notes* notes) : notes_(notes) {}
  void Opened(const ObservedSession& session) override {
    notes_->Add(absl::StrFormat("opened %d of %d", session.rank, session.world));
  }
  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override {
    notes_->Add(absl::StrFormat("plan of %d groups, %d tensors, from %d", plan.groups.size(),
                                table.size(), from_round));
  }
  void RoundBegun(uint64_t round, TimePoint) override { Note("begun", round); }
  void GradientReady(uint64_t round, uint32_t tensor, TimePoint) override {
    Note(absl::StrFormat("ready %d", tensor), round);
  }
  void SelectionBegun(uint64_t round, uint32_t, TimePoint) override { Note("packing", round); }
  void Selected(uint64_t round, uint32_t, TimePoint) override { Note("packed", round); }
  void GroupStarted(uint64_t round, uint32_t, TimePoint) override { Note("started", round); }
  void GroupEnded(uint64_t round, uint32_t, uint64_t sent_bytes, TimePoint) override {
    Note(absl::StrFormat("ended %d bytes", sent_bytes), round);
  }
  void Voted(uint64_t round, uint64_t, TimePoint) override { Note("voted", round); }
  void Committed(uint64_t round, bool skipped, TimePoint) override {
    Note(skipped ? "skipped" : "committed", round);
  }
  void Applied(uint64_t round, TimePoint) override { Note("applied", round); }
  void Failed(const std::string& reason, TimePoint) override { notes_->Add("failed: " + reason); }

 private:
  void Note(const std::string& what, uint64_t round) {
    notes_->Add(absl::StrFormat("%d %s", round, what));
  }
  Notes* const notes_;
};

TEST(Observer, HearsARoundInItsOrder) {
  Notes notes;
  Job job{.world = 2};
  job.observer = [&](int rank) -> std::unique_ptr<Observer> {
    if (rank == 0) return std::make_unique<NoteTaker>(&notes);
    return std::make_unique<Observer>();
  };
  RunJob(job, [](Session& session, GatheringCoordinator&) {
    Gradient dense(session, "dense", 10, "dense");
    ASSERT_TRUE(session.Agree().ok());
    ASSERT_TRUE(session.Ready(dense.id).ok());
    ASSERT_TRUE(session.FinishStep().ok());
    EXPECT_TRUE(session.Close("").ok());
  });
  EXPECT_THAT(notes.lines,
              ElementsAre("opened 0 of 2", "plan of 1 groups, 1 tensors, from 1", "1 begun",
                          "1 ready 0", "1 packing", "1 packed", "1 started", "1 ended 40 bytes",
                          "1 voted", "1 committed", "1 applied", "2 begun"));
}

TEST(Observer, HearsOfAFailureAndNotOfAnOrderlyEnd) {
  Notes failed, ended;
  for (Notes* notes : {&failed, &ended}) {
    Job job{.world = 1};
    job.observer = [notes](int) { return std::make_unique<NoteTaker>(notes); };
    RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
      if (notes == &failed) coordinator.Fail(Unavailable("rank 7 is gone"));
      (void)session.Close("");
    });
  }
  EXPECT_THAT(failed.lines, Contains(HasSubstr("failed: rank 7 is gone")));
  EXPECT_THAT(ended.lines, ElementsAre("opened 0 of 1"));
}

}  // namespace
}  // namespace ringwood
