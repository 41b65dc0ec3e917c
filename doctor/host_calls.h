// Commands on several hosts at once, each through `ringwood worker -` as a job's processes are
// started; what they print is collected. On one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/remote.h"

namespace ringwood {

class HostCalls {
 public:
  // Longest output of a command: the facts of a host with hundreds of interfaces fit.
  static constexpr size_t kMaxOutput = 1 << 20;

  struct Call {
    std::unique_ptr<Remote> remote;  // null: it never started
    std::string output;              // standard output so far
    std::string said;                // the end of standard error
    std::string error;               // why it failed; empty: it has not
    bool ended = false;
  };

  explicit HostCalls(Reach reach) : reach_(std::move(reach)) {}
  ~HostCalls();  // ends what still runs

  // One process. Its number.
  size_t Start(const Job& job);

  // Waits until, of each call from `first` on, `done` holds or the call has ended. A call for which
  // the deadline passes has failed.
  void Await(size_t first, TimePoint deadline, const std::function<bool(const Call&)>& done);

  const Call& operator[](size_t call) const { return calls_[call]; }
  size_t size() const { return calls_.size(); }

 private:
  void Turn();
  void Hear(Call* call, const Report& report);

  const Reach reach_;
  std::vector<Call> calls_;
};

}  // namespace ringwood
