// The thread that reads checkpoints to their end, beside all that the store does: back from the
// disk when they were written, and before a job resumes from one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "base/loop.h"
#include "base/status.h"
#include "server/store/checkpoint_store.h"

namespace ringwood {

class Checker {
 public:
  using Checked = std::function<void(uint64_t done, uint64_t all)>;
  using Answer = std::function<void(StatusOr<std::optional<CheckpointBase>>)>;
  using Found = std::function<void(const CheckpointId&, const Status&)>;

  // `checked`: told while a job waits; may be null.
  Checker(const CheckpointStore* store, Checked checked)
      : store_(store), checked_(std::move(checked)), loop_("store-check") {}
  ~Checker() { Stop(); }

  // CheckpointStore::NewestGood, after the checks that were begun. Logs its progress. Answers on
  // the checker's thread, or here where it is stopping.
  void FindBase(uint64_t job, const CheckpointStore::Reach& reach,
                const CheckpointStore::AskParts& ask, const Answer& answer);
  // CheckpointStore::CheckPart, in the same way.
  void CheckPart(const CheckpointId& id, uint64_t digest,
                 const std::function<void(const Status&)>& answer);

  // CheckpointStore::ReadBack, then ReadBackLeft. `found` is told of each on the checker's thread,
  // but for those that Stop ends: they stay unread.
  void ReadBack(const CheckpointId& id, const Found& found);
  // The same of all that are unread: a process before this one left them, or the disk could not be
  // read. One at a time, so that a job that resumes waits for one at most.
  void ReadBackLeft(const Found& found) { ReadBackNext({}, found); }

  // Ends what runs: nobody is told anything afterwards.
  void Stop();

 private:
  // The newest that is unread and none of `tried`.
  void ReadBackNext(std::set<CheckpointId> tried, const Found& found);
  void ReadBackNow(const CheckpointId& id, const Found& found);
  ReadProgress Progress();

  const CheckpointStore* const store_;
  const Checked checked_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> waiting_{0};  // jobs, for FindBase
  Loop loop_;                    // last: its thread ends before the rest is destroyed
};

}  // namespace ringwood
