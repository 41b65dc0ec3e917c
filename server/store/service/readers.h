// Readers that are no members of a job: which checkpoint each gets, and which are not removed, as
// somebody reads them. At most kMaxHeld checkpoints are held at once, so that readers fill no disk:
// who would hold a further one waits, and all who wait then share the newest. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/retention.h"

namespace ringwood {

// Aborted: of a checkpoint that somebody read and did not hold.
Status RemovedWhileRead(const CheckpointId& id);

class Readers {
 public:
  static constexpr size_t kMaxReaders = 256;
  static constexpr size_t kMaxHeld = 4;            // checkpoints
  static constexpr double kMaxWaitSeconds = 3600;  // who names a longer time waits this long
  // A checkpoint that is held and of which nobody reads anything for so long is let go.
  static constexpr double kIdleSeconds = 60;

  struct Answer {
    uint64_t reader;
    StatusOr<CheckpointId> id;  // which the reader holds from here on; an error: it has left
  };
  // How the making of a checkpoint goes: an error ended it, a text says what it waits for.
  struct Making {
    Status failed;
    std::string waits_for;
  };

  // Exhausted where too many are here.
  Status Enter(uint64_t reader, const v1::HoldRequest& wish, TimePoint now);
  void Leave(uint64_t reader);

  // `complete`: in any order; bad ones are for nobody. Who wants the newest waits for one that was
  // there when it came and is being read back, and gets an older one where that takes too long.
  // `making` is asked about what is not there.
  std::vector<Answer> Look(const std::vector<Kept>& complete,
                           const std::function<Making(const CheckpointId&)>& making, TimePoint now);
  // A piece of this checkpoint is being read.
  void Read(const CheckpointId& id, TimePoint now);
  // Those that hold what nobody reads; they have left.
  std::vector<uint64_t> TakeIdle(TimePoint now);

  bool waiting() const { return !waiting_.empty(); }
  std::set<CheckpointId> held() const;

 private:
  struct Waiting {
    v1::HoldRequest wish;
    double seconds;
    TimePoint deadline;
    std::optional<CheckpointId> unread = {};  // the newest, when it came; 0 and 0: none was
  };
  // The good one and, where it is newer and at most `last`, the one that is unread.
  struct Newest {
    std::optional<CheckpointId> good, unread;
  };
  static Newest NewestFor(const v1::HoldRequest& wish, const std::vector<Kept>& complete,
                          const std::optional<CheckpointId>& last);
  // Nothing: the reader waits on.
  std::optional<StatusOr<CheckpointId>> AnswerTo(
      const Waiting& waiting, const Newest& found,
      const std::function<Making(const CheckpointId&)>& making, TimePoint now) const;

  std::map<uint64_t, Waiting> waiting_;       // by reader
  std::map<uint64_t, CheckpointId> holding_;  // by reader
  std::map<CheckpointId, TimePoint> read_;    // of those that are held: when last
};

}  // namespace ringwood
