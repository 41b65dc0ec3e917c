// Rounds are logged before they are voted on, and replayed to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cfloat>
#include <cmath>
#include <limits>
#include <map>

#include "absl/synchronization/notification.h"
#include "base/random.h"
#include "client/updates/round_body.h"
#include "dense/arithmetic/half.h"
#include "tests/client/elastic_job.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kLoggedSteps = 6;
constexpr uint64_t kSkipped = 4;    // a step in which one rank meets a NaN
constexpr uint64_t kOverflows = 5;  // what each rank brings is finite, the sum is not
constexpr size_t kLoggedElements = 300;

// The log, in memory.
struct MemoryUpdates {
  absl::Mutex mutex;
  std::map<uint64_t, std::string> rounds;
  std::vector<uint64_t> begun_again;  // the steps that came with `restart`
  Status failure;                     // of the next calls
  bool gone = false;                  // the next call finds no server
  std::atomic<uint64_t> committed{0};
};

class MemoryUpdateClient : public UpdateClient {
 public:
  explicit MemoryUpdateClient(MemoryUpdates* updates) : updates_(updates) {}

  class MemoryRound : public Round {
   public:
    MemoryRound(MemoryUpdates* updates, const RoundName& name, bool restart)
        : updates_(updates), name_(name), restart_(restart) {}

    void Write(std::span<const std::byte> bytes) override {
      body_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    Status Finish(std::span<const std::byte> last) override {
      Write(last);
      absl::MutexLock lock(&updates_->mutex);
      RW_RETURN_IF_ERROR(updates_->failure);
      if (std::exchange(updates_->gone, false)) return Unavailable("the server has gone");
      EXPECT_LT(updates_->committed, name_.step) << "it was committed before it was logged";
      if (restart_) updates_->begun_again.push_back(name_.step);
      updates_->rounds[name_.step] = body_;
      return OkStatus();
    }

   private:
    MemoryUpdates* const updates_;
    const RoundName name_;
    const bool restart_;
    std::string body_;
  };

  std::unique_ptr<Round> Begin(const RoundName& name, bool restart, Duration) override {
    return std::make_unique<MemoryRound>(updates_, name, restart);
  }

  Status Replay(uint64_t after, uint64_t last, const TakeRound& take, Duration) override {
    absl::MutexLock lock(&updates_->mutex);
    std::string body;
    for (uint64_t step = after + 1; step <= last; ++step) {
      body = updates_->rounds.at(step);
      RW_RETURN_IF_ERROR(take(step, &body));
    }
    return OkStatus();
  }
  void CancelRounds() override {}
  void Cancel() override {}

 private:
  MemoryUpdates* const updates_;
};

// Three tensors of every kind that the host has.
struct Model {
  explicit Model(Session& session)
      : sparse(session, "sparse", kLoggedElements, "sparse", 0.05, 0.9),
        dense(session, "dense", kLoggedElements, "dense"),
        large(session, "large", 700'000, "dense") {}  // more than a piece

  void Fill(int rank, int world, uint64_t step) {
    Random random(100 * step + static_cast<uint64_t>(rank));
    for (Gradient* gradient : all()) {
      for (float& value : gradient->data) value = static_cast<float>(random.Below(2001)) - 1000;
    }
    if (step == kSkipped && rank == 1) dense.data[7] = std::numeric_limits<float>::quiet_NaN();
    if (step == kOverflows) sparse.data[7] = world > 1 ? FLT_MAX / static_cast<float>(world) : 1;
  }
  std::vector<std::vector<float>> Values() const { return {sparse.data, dense.data, large.data}; }
  std::vector<Gradient*> all() { return {&sparse, &dense, &large}; }

  Gradient sparse, dense, large;
};

bool IsLeftOut(uint64_t step, int world) {
  return world > 1 && (step == kSkipped || step == kOverflows);
}

using Steps = std::map<uint64_t, std::vector<std::vector<float>>>;

v1::RoundBody TailOf(const std::string& body) {
  uint64_t size = 0;
  v1::RoundBody tail;
  std::memcpy(&size, body.data() + body.size() - sizeof size, sizeof size);
  EXPECT_TRUE(tail.ParseFromString(body.substr(body.size() - sizeof size - size, size)));
  return tail;
}

Job LoggedJob(MemoryUpdates* updates, int world) {
  Job job;
  job.world = world;
  job.updates = [updates] { return std::make_unique<MemoryUpdateClient>(updates); };
  job.log_writer = static_cast<uint32_t>(world - 1);
  return job;
}

// What rank 0 had after each step.
Steps Train(const Job& job, MemoryUpdates* updates) {
  Steps steps;
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    Model model(session);
    for (uint64_t step = 1; step <= kLoggedSteps; ++step) {
      model.Fill(session.rank(), job.world, step);
      if (step == 3) {
        absl::MutexLock lock(&updates->mutex);
        updates->gone = true;  // what was sent is sent again
      }
      if (session.rank() == job.world - 1) {
        ASSERT_TRUE(session.Note("learning rate of " + std::to_string(step)).ok());
      }
      ASSERT_TRUE(session.BeginStep(session.rank() + 1).ok());
      for (Gradient* gradient : model.all()) ASSERT_TRUE(session.Ready(gradient->id).ok());
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->skipped, IsLeftOut(step, job.world));
      updates->committed = std::max<uint64_t>(updates->committed, step);
      if (session.rank() == 0) steps[step] = model.Values();
    }
    EXPECT_TRUE(session.Close("").ok());
  });
  return steps;
}

TEST(Updates, AReplayHasTheAveragesToTheBit) {
  for (const auto& [world, wire] : std::vector<std::pair<int, std::string>>{
           {1, "fp32"}, {2, "fp32"}, {3, "bf16"}, {2, "int8"}, {3, "int4"}}) {
    SCOPED_TRACE(wire + " on " + std::to_string(world));
    MemoryUpdates updates;
    Job job = LoggedJob(&updates, world);
    job.wire = wire;
    const Steps lived = Train(job, &updates);
    ASSERT_EQ(updates.rounds.size(), kLoggedSteps);
    // What a ring has reached of a large tensor does not wait for its end. Two ranks' codes of it
    // are one chunk.
    EXPECT_EQ(TailOf(updates.rounds.at(1)).tensors_size() > 3, world > 1 && wire != "int8");
    constexpr uint64_t kCheckpoint = 2;
    updates.committed = 0;
    job.base_step = kLoggedSteps;
    job.logged_steps = kLoggedSteps - kCheckpoint;
    job.has_checkpoint = true;
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      Model model(session);
      EXPECT_EQ(session.step(), kCheckpoint);
      EXPECT_TRUE(session.Agree().ok());
      EXPECT_THAT(Message(session.BeginStep(1)), HasSubstr("replay them first"));
      EXPECT_THAT(Message(session.Ready(0)), HasSubstr("replay them first"));
      EXPECT_THAT(Message(session.Checkpoint({})), HasSubstr("replay them first"));
      while (session.replays() > 0) {
        const auto round = session.Replay();
        ASSERT_TRUE(round.ok()) << round.status();
        EXPECT_EQ(round->step, session.step());
        EXPECT_EQ(round->members.size(), static_cast<size_t>(world));
        EXPECT_EQ(round->contributors, round->members);
        EXPECT_EQ(round->note, "learning rate of " + std::to_string(round->step));
        EXPECT_EQ(round->skipped, IsLeftOut(round->step, world));
        if (!round->skipped) {
          EXPECT_EQ(model.Values(), lived.at(round->step));
        }
      }
      EXPECT_EQ(session.step(), kLoggedSteps);
      EXPECT_EQ(session.Replay().status().code(), StatusCode::kNotFound);
      for (Gradient* gradient : model.all()) ASSERT_TRUE(session.Ready(gradient->id).ok());
      const auto next = session.FinishStep();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->step, kLoggedSteps + 1);
      EXPECT_TRUE(session.Close("").ok());
    });
  }
}

TEST(Updates, AReplayHasTheAveragesOfBFloat16ToTheBit) {
  for (const int world : {1, 2, 3}) {
    MemoryUpdates updates;
    Job job = LoggedJob(&updates, world);
    job.wire = "native";
    std::map<uint64_t, std::vector<uint16_t>> lived;
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      NarrowGradient gradient(session, "narrow", kLoggedElements);
      for (uint64_t step = 1; step <= 3; ++step) {
        Random random(10 * step + static_cast<uint64_t>(session.rank()));
        for (uint16_t& value : *gradient.data)
          value = ToBFloat16(static_cast<float>(random.Unit()));
        ASSERT_TRUE(session.BeginStep(session.rank() + 1).ok());
        ASSERT_TRUE(session.Ready(gradient.id).ok());
        ASSERT_TRUE(session.FinishStep().ok());
        if (session.rank() == 0) lived[step] = *gradient.data;
      }
      EXPECT_TRUE(session.Close("").ok());
    });
    job.base_step = job.logged_steps = 3;
    job.has_checkpoint = true;
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      NarrowGradient gradient(session, "narrow", kLoggedElements);
      EXPECT_TRUE(session.Agree().ok());
      while (session.replays() > 0) {
        const auto round = session.Replay();
        ASSERT_TRUE(round.ok()) << round.status();
        EXPECT_EQ(*gradient.data, lived.at(round->step));
      }
      EXPECT_TRUE(session.Close("").ok());
    });
  }
}

// The elastic job's first epoch: a checkpoint of step 2, and the rounds after it in the log.
Script Resumed() { return {.base_step = kLoggedSteps, .logged_steps = kLoggedSteps - 2}; }

// Slot `gone` ends after two rounds; the others have replayed one or none when they hear of it.
TEST(Updates, ADeathUnderAReplayCostsNoLoggedStep) {
  constexpr int kGone = 2;
  MemoryUpdates updates;
  const Job job = LoggedJob(&updates, 3);
  const Steps lived = Train(job, &updates);
  updates.committed = kLoggedSteps;
  absl::Notification gone;
  InProcessNetwork network;
  RunElasticJob({.script = Resumed(), .updates = job.updates}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Model model(*session);
                  ASSERT_TRUE(session->Agree().ok());
                  while (session->replays() > 0) {
                    if (slot == kGone && session->step() == 4) {
                      session.reset();
                      gone.Notify();
                      return;
                    }
                    if (slot != kGone && session->step() == 2u + static_cast<uint64_t>(slot)) {
                      gone.WaitForNotification();
                    }
                    const auto round = session->Replay();
                    ASSERT_TRUE(round.ok()) << round.status();
                    if (!round->skipped) {
                      EXPECT_EQ(model.Values(), lived.at(round->step));
                    }
                  }
                  EXPECT_EQ(session->step(), kLoggedSteps);
                  for (Gradient* gradient : model.all()) {
                    ASSERT_TRUE(session->Ready(gradient->id).ok());
                  }
                  const auto next = session->FinishStep();
                  ASSERT_TRUE(next.ok()) << next.status();
                  EXPECT_EQ(next->step, kLoggedSteps + 1);
                  EXPECT_FALSE(next->received);
                  EXPECT_EQ(session->epoch(), 2);
                  EXPECT_TRUE(session->Close("").ok());
                });
}

TEST(Updates, ARankThatWasAwayUnderAReplayHasNothingLeftToReplay) {
  MemoryUpdates updates;
  const Job job = LoggedJob(&updates, 3);
  (void)Train(job, &updates);
  updates.committed = kLoggedSteps;
  Script script = Resumed();
  script.regroup_after = {kLoggedSteps + 1};
  script.late = 1;
  InProcessNetwork network;
  RunElasticJob({.script = script, .updates = job.updates}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator& coordinator) {
                  Model model(*session);
                  uint64_t state = 0;
                  const auto bytes = std::as_writable_bytes(std::span(&state, 1));
                  ASSERT_TRUE(session->RegisterState("state", bytes).ok());
                  ASSERT_TRUE(session->Agree().ok());
                  while (session->replays() > 0) {
                    const bool away = slot == script.late && session->step() == 4;
                    if (away) coordinator.SetAside();
                    const auto round = session->Replay();
                    ASSERT_EQ(round.ok(), !away) << round.status();
                    if (away) {
                      EXPECT_EQ(round.status().code(), StatusCode::kAborted);
                      EXPECT_THAT(Message(round.status()), HasSubstr("this rank was away"));
                      EXPECT_TRUE(session->receiving());
                      EXPECT_EQ(session->replays(), 0);
                    }
                  }
                  int received = 0;
                  while (session->step() < kLoggedSteps + 3) {
                    for (Gradient* gradient : model.all()) {
                      ASSERT_TRUE(session->Ready(gradient->id).ok());
                    }
                    const auto next = session->FinishStep();
                    ASSERT_TRUE(next.ok()) << next.status();
                    received += next->received;
                  }
                  EXPECT_EQ(received, slot == script.late ? 1 : 0);
                  EXPECT_TRUE(session->Close("").ok());
                });
}

TEST(Updates, ALogThatFailsBeginsAgainWithACheckpoint) {
  MemoryUpdates updates;
  RunJob(LoggedJob(&updates, 2), [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient gradient(session, "w", kLoggedElements, "dense");
    for (uint64_t step = 1; step <= kLoggedSteps; ++step) {
      coordinator.Alone([&] {
        absl::MutexLock lock(&updates.mutex);
        if (step == 2) updates.failure = Exhausted("the disk is full");
        if (step == 4) updates.failure = OkStatus();
      });
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
      if (step == 4) {
        ASSERT_TRUE(session.Checkpoint({}).ok());
      }
    }
    EXPECT_TRUE(session.Close("").ok());
  });
  EXPECT_THAT(updates.begun_again, ElementsAre(5));
  std::vector<uint64_t> steps;
  for (const auto& [step, body] : updates.rounds) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(1, 5, 6));
}

// The bytes come from a disk: whatever they are, the answer is an error and untouched gradients, or
// a round that fits.
TEST(RoundBody, ThatDoesNotFitChangesNothing) {
  std::vector<float> dense(kLoggedElements, 1), sparse(kLoggedElements, 2);
  Tensor first, second;
  first.spec = {"dense", kLoggedElements, "dense", 1};
  first.data = dense.data();
  second.spec = {"sparse", kLoggedElements, "sparse", 0.1};
  second.data = sparse.data();
  Entries entries;
  for (uint32_t i = 0; i < 30; ++i) entries.push_back(10 * i, static_cast<float>(i));
  RoundBody body;
  Buffer<std::byte> memory;
  std::string whole;
  const auto add = [&](size_t id, const TensorSum& sum, uint64_t reached) {
    EXPECT_FALSE(body.has(id, reached));
    const std::span<const std::byte> bytes = body.Add(id, kLoggedElements, sum, reached, &memory);
    whole.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_TRUE(body.has(id, reached));
  };
  TensorSum of_entries;
  of_entries.sparse = entries;
  add(0, TensorSum{std::span<const float>(dense)}, 100);
  add(1, of_entries, kLoggedElements);  // groups end in any order
  add(0, TensorSum{std::span<const float>(dense)}, kLoggedElements);
  whole += body.Tail({3, false, 2, {0, 1}, {0, 1}, "a note"});
  const auto read = [&](const std::string& bytes) {
    return ReadRound(3, std::as_bytes(std::span(bytes)), {&first, &second}).status();
  };
  const std::vector<float> dense_before = dense, sparse_before = sparse;
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(read(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(read(whole + "x").ok());
  EXPECT_EQ(dense, dense_before);
  EXPECT_EQ(sparse, sparse_before);
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string flipped = whole;
    flipped[random.Below(whole.size())] ^= static_cast<char>(1 << random.Below(8));
    (void)read(flipped);  // no crash; the store's checksums find what fits
  }
  dense = dense_before;
  // A part that is missing, and one that comes twice.
  for (const uint64_t end : {100u, 300u}) {
    RoundBody cut;
    std::string parts;
    for (const uint64_t reached : {uint64_t{100}, end}) {
      const TensorSum sum{std::span<const float>(dense)};
      const auto bytes = cut.Add(0, kLoggedElements, sum, reached, &memory);
      parts.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    if (end == kLoggedElements) {
      const auto bytes = cut.Add(1, kLoggedElements, of_entries, kLoggedElements, &memory);
      parts.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      v1::RoundBody tail = TailOf(parts + cut.Tail({3, false, 2, {0, 1}, {0, 1}, "a note"}));
      tail.mutable_tensors(1)->set_first(101);
      const uint64_t size = tail.ByteSizeLong();
      parts += tail.SerializeAsString();
      parts.append(reinterpret_cast<const char*>(&size), sizeof size);
      EXPECT_THAT(Message(read(parts)), HasSubstr("goes on with element 101, not 100"));
    } else {
      parts += cut.Tail({3, false, 2, {0, 1}, {0, 1}, "a note"});
      EXPECT_THAT(Message(read(parts)), HasSubstr("it brings 100 of 300 elements"));
    }
  }
  second.spec.elements = kLoggedElements - 1;
  EXPECT_THAT(Message(read(whole)), HasSubstr("tensor 'sparse' had 300 elements and has 299"));
  second.spec.elements = kLoggedElements;
  EXPECT_EQ(dense, dense_before);
  ASSERT_TRUE(read(whole).ok());
  EXPECT_EQ(dense, std::vector<float>(kLoggedElements, 0.5f));
  EXPECT_EQ(sparse[10], 0.5f);
  EXPECT_EQ(sparse[11], 0);
}

// A part without elements, then all; or entries, of a time when the tensor was sparse.
TEST(RoundBody, IsReadIntoBFloat16WhateverItsForm) {
  const std::vector<float> sums = {2, 4, 6};
  Entries entries;
  entries.push_back(1, 5);
  TensorSum of_entries;
  of_entries.sparse = entries;
  for (const bool sparse : {false, true}) {
    std::vector<uint16_t> narrow(sums.size(), ToBFloat16(-1));
    Tensor tensor{.spec = {"w", sums.size()}, .data = narrow.data(), .type = DataType::kBFloat16};
    RoundBody body;
    Buffer<std::byte> memory;
    std::string whole;
    const auto add = [&](const TensorSum& sum, uint64_t reached) {
      const std::span<const std::byte> bytes = body.Add(0, sums.size(), sum, reached, &memory);
      whole.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    if (sparse) {
      add(of_entries, sums.size());
    } else {
      add(TensorSum{sums}, 0);
      add(TensorSum{sums}, sums.size());
    }
    whole += body.Tail({1, false, 2, {0}, {0}, ""});
    const auto read = ReadRound(1, std::as_bytes(std::span(whole)), {&tensor});
    ASSERT_TRUE(read.ok()) << read.status();
    const std::vector<float> expected =
        sparse ? std::vector<float>{0, 2.5, 0} : std::vector<float>{1, 2, 3};
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(FromBFloat16(narrow[i]), expected[i]) << i;
  }
}

// protobuf takes an int, so a longer tail is refused before it is parsed.
TEST(RoundBody, ATailOfTwoGigabytesIsDamage) {
  const uint64_t tail = uint64_t{1} << 31;
  const size_t bytes = tail + sizeof tail;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> body(static_cast<std::byte*>(memory), bytes);
  std::memcpy(body.data() + tail, &tail, sizeof tail);
  EXPECT_EQ(ReadRound(3, body, {}).status().code(), StatusCode::kDataLoss);
  munmap(memory, bytes);
}

}  // namespace
}  // namespace ringwood
