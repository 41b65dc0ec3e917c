// A job of threads whose coordinator is a process that is killed and started again at its address
// with its store, and how long the ranks stand still by that.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "client/grpc/parts.h"
#include "client/session.h"
#include "tests/cli/program.h"
#include "tests/server/peers/fake_coordinator.h"

namespace ringwood {

class RestartedCoordinator {
 public:
  explicit RestartedCoordinator(std::vector<std::string> flags) : flags_(std::move(flags)) {
    Start();
    EXPECT_TRUE(program_->WaitForOutput("listening"));
  }
  std::string address() const { return absl::StrFormat("127.0.0.1:%d", port_); }
  void Kill() {
    program_->Signal(SIGKILL);
    program_->Wait();
    program_.reset();
  }
  void Start() {
    std::vector<std::string> arguments = {"server", "--insecure", "--store-patience", "30"};
    arguments.insert(arguments.end(), {"--listen", address(), "--store", store_.path() + "/store"});
    arguments.insert(arguments.end(), flags_.begin(), flags_.end());
    program_ = std::make_unique<Program>(arguments);
  }

 private:
  const std::vector<std::string> flags_;
  const int port_ = PortForRestarts();
  const TemporaryDirectory store_;
  std::unique_ptr<Program> program_;
};

// Ranks that train until they are told to stop. Each adds its number + 1 to a dense and a sparse
// gradient of ones, so every step's result is known.
class TrainingThreads {
 public:
  TrainingThreads(const std::string& address, int world, double grace) : world_(world) {
    for (int r = 0; r < world; ++r) {
      threads_.emplace_back([this, address, r, grace] { Train(address, r, grace); });
    }
  }
  // All ranks take the same number of steps, and end in order.
  ~TrainingThreads() {
    {
      absl::MutexLock lock(&mutex_);
      last_ = newest_ + 10;  // above what any rank has begun
    }
    for (std::thread& thread : threads_) thread.join();
  }

  // Waits until a rank has finished so many steps more.
  bool Advance(uint64_t steps) {
    absl::MutexLock lock(&mutex_);
    const uint64_t to = newest_ + steps;
    const auto there = [&] { return newest_ >= to || failed_; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(kSeconds)) && !failed_;
  }
  // The longest time between two steps of a rank that ended after `since`.
  double LongestPause(TimePoint since) {
    absl::MutexLock lock(&mutex_);
    double longest = 0;
    for (size_t i = 1; i < ends_.size(); ++i) {
      if (ends_[i] > since) longest = std::max(longest, ToSeconds(ends_[i] - ends_[i - 1]));
    }
    return longest;
  }
  std::set<uint64_t> epochs() {
    absl::MutexLock lock(&mutex_);
    return epochs_;
  }

 private:
  static constexpr double kSeconds = 120;

  void Train(const std::string& address, int rank, double grace) {
    const Status trained = TrainOn(address, rank, grace);
    EXPECT_TRUE(trained.ok()) << "rank " << rank << ": " << trained;
    absl::MutexLock lock(&mutex_);
    failed_ |= !trained.ok();
  }

  Status TrainOn(const std::string& address, int rank, double grace) {
    SessionOptions options;
    options.coordinator = address;
    options.rank = rank;
    options.world = world_;
    options.coordinator_grace_seconds = grace;
    options.log_level = "warning";
    RW_ASSIGN_OR_RETURN(Parts parts, MakeParts(options));
    RW_ASSIGN_OR_RETURN(const auto session, Session::Open(options, std::move(parts)));
    std::vector<float> dense(1000), sparse(100'000);
    for (auto* data : {&dense, &sparse}) {
      Tensor tensor;
      tensor.spec = {data == &dense ? "dense" : "sparse", data->size(),
                     data == &dense ? "dense" : "sparse", 0.01};
      tensor.data = data->data();
      RW_RETURN_IF_ERROR(session->Register(tensor).status());
    }
    for (uint64_t step = 1; Goes(step); ++step) {
      dense.assign(dense.size(), static_cast<float>(rank + 1));
      sparse.assign(sparse.size(), 0);
      sparse[step % sparse.size()] = 1;
      for (const int id : {0, 1}) RW_RETURN_IF_ERROR(session->Ready(id));
      RW_ASSIGN_OR_RETURN(const StepResult result, session->FinishStep());
      const float mean = (world_ + 1) / 2.0f;
      if (result.step != step || result.skipped || dense[7] != mean ||
          sparse[step % sparse.size()] != 1) {
        return Internal(absl::StrFormat("step %d: %d, dense %g, sparse %g", step, result.step,
                                        dense[7], sparse[step % sparse.size()]));
      }
      Took(rank, step, session->epoch());
    }
    return session->Close("");
  }

  bool Goes(uint64_t step) {
    absl::MutexLock lock(&mutex_);
    return step <= last_ && !failed_;
  }
  void Took(int rank, uint64_t step, uint64_t epoch) {
    absl::MutexLock lock(&mutex_);
    newest_ = std::max(newest_, step);
    epochs_.insert(epoch);
    if (rank == 0) ends_.push_back(Now());
  }

  const int world_;
  absl::Mutex mutex_;
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<uint64_t> epochs_ ABSL_GUARDED_BY(mutex_);
  std::vector<TimePoint> ends_ ABSL_GUARDED_BY(mutex_);  // of rank 0's steps
  std::vector<std::thread> threads_;
};

}  // namespace ringwood
