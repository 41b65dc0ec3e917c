// This process's part in the election of the server that coordinates: stands for it, keeps what it
// won, and says at once when that is lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/loop.h"
#include "base/status.h"
#include "server/coordinator/etcd/address.h"
#include "server/coordinator/etcd/client.h"
#include "server/coordinator/etcd/election.h"

namespace ringwood {

class Leadership {
 public:
  struct Options {
    EtcdAddress etcd;
    std::string address;  // HOST:PORT where this server serves when it leads
    int64_t lease_seconds = 0;
    // Once, when this server leads, with the revision of its key; may take its time.
    std::function<void(int64_t revision)> leads;
    // Once, after leads was called or while it runs, and before another server can lead: stop at
    // once, as if killed. The argument says why and what to do.
    std::function<void(const Status& why)> deposed;
    // Once, instead of all others, where etcd does not let this process in at its first question:
    // what is wrong between the two, with the remedy.
    std::function<void(const Status& why)> refused;
  };

  // The callbacks come on two threads of this object's.
  explicit Leadership(Options options);
  ~Leadership();  // resigns, so that another server leads at once

  // No callback from here on; waits for one that runs. What was won is not kept alive any more.
  void Close();

 private:
  void Step(Loop* loop);
  StatusOr<Answer> Put(const Question& question);
  Status WhyRefused(const Status& no_answer);
  StatusOr<Answer> Create(int64_t lease, TimePoint until);
  void Follow(Election::Phase before, const Status& answered);
  void SayOnce(LogLevel level, const std::string& state, const std::string& line);

  const Options options_;
  std::atomic<bool> closing_{false};
  EtcdClient client_;            // calls on ask_, but for Cancel
  Election election_;            // touched only on ask_, and after its end
  bool met_ = false;             // etcd has answered. Touched only on ask_
  std::string said_;             // the state that the log knows. Touched only on ask_
  std::unique_ptr<Loop> leads_;  // runs options_.leads
  std::unique_ptr<Loop> ask_;    // last: its thread uses the others
};

}  // namespace ringwood
