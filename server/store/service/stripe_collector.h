// Collects the stripes of checkpoints from all ranks; the last stripe completes a checkpoint.
// Fenced by the history of the job: who was a member of an epoch from which it went on may still
// bring its stripe of a checkpoint of that epoch, and no process of a history that was given up. A
// checkpoint fails when a member is gone whose stripe had not come, and when it receives nothing
// for a while. A complete one is read back from the disk; meanwhile ranks may save the next one,
// which is told to be complete when that has ended. Of several stores that share a checkpoint each
// collects the stripes of some ranks; the main one's completes the whole when the parts of the
// others have come. Used on one thread (the store's loop), but for what says otherwise; no gRPC
// here.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "jobs/store_quota.h"
#include "ringwood/v1/state.pb.h"
#include "server/store/checkpoint_store.h"
#include "server/store/record/parts.h"

namespace ringwood {

class StripeCollector {
 public:
  // Most unfinished checkpoints at once; a trainer has one in flight.
  static constexpr size_t kMaxOpen = 2;
  // Finished ones whose outcome is remembered for Await.
  static constexpr size_t kMaxOutcomes = 64;
  // Epochs of which a checkpoint may still begin: ranks bring their first stripes at once.
  static constexpr size_t kMaxCrews = 4;

  // How long a checkpoint waits for the next chunk or stripe: ranks save after the same step, one
  // of them may have an evaluation before it.
  static constexpr double kPatienceSeconds = 300;

  // Sees to it that a checkpoint is read back (CheckpointStore::ReadBack), and then calls Settle.
  using ReadBack = std::function<void(const CheckpointId&)>;

  // `unix_seconds` dates manifests; nothing depends on it. `quota`: null: none. Without `read_back`
  // checkpoints are read back at once.
  StripeCollector(CheckpointStore* store, std::function<int64_t()> unix_seconds,
                  StoreQuota* quota = nullptr, ReadBack read_back = nullptr);

  // A complete checkpoint was read back, or could not be.
  void Settle(const CheckpointId& id, const Status& found);
  bool IsReadBack(const CheckpointId& id) const { return unread_.contains(id); }  // now

  // Fails checkpoints that received nothing since `now` - kPatienceSeconds. True: some failed.
  bool GiveUp(TimePoint now);

  // Which store this is of how many: 0 is the main one. The ranks r with r mod `stores` are its
  // own.
  struct Share {
    uint32_t store = 0;
    uint32_t stores = 1;
  };
  // From now on this epoch's members may save. Of what is under way goes on what belongs to the
  // history of this epoch, and lacks no stripe of who is gone.
  void SetEpoch(const v1::EpochRecord& record, const Share& share = {0, 1});
  const v1::EpochRecord& record() const { return record_; }
  // Of the epoch of a checkpoint that is under way.
  const v1::EpochRecord& RecordOf(const CheckpointId& id) const {
    return open_.at(id).crew->record;
  }

  // Of a further store: the main one has begun this checkpoint, and its ranks may bring their
  // stripes. Before that they are too early.
  Status Invite(const CheckpointId& id);
  bool IsTooEarly(const v1::SaveChunk& first) const;
  // Fails a checkpoint that is not complete.
  void GiveUp(const CheckpointId& id, const Status& why) { Fail(id, why); }
  // Of a further store: how it ended. The main one knows, and may begin it once more.
  void Forget(const CheckpointId& id) { outcomes_.erase(id); }

  // Of the main store: what the further ones are to be told, of each checkpoint. It begins, and its
  // parts are wanted (PartCame); or it failed before they were all there.
  struct Divided {
    std::function<void(const CheckpointId&)> begins;
    std::function<void(const CheckpointId&)> failed;
  };
  void Divide(Divided divided) { divided_ = std::move(divided); }
  // A part, from 1 on, or why there is none. One that is not awaited any more is dropped.
  void PartCame(const CheckpointId& id, uint32_t part, StatusOr<StoredPart> came);
  std::set<CheckpointId> UnderWay() const;

  // Nobody may save until the next SetEpoch (the base of the next epoch is being chosen).
  void Fence();

  // What the threads that write the stripes of a checkpoint know of it.
  struct Life {
    std::atomic<bool> over{false};
    std::atomic<TimePoint> heard{TimePoint()};
    std::atomic<int> busy{0};  // so many stripes are being synced
  };

  // One rank's stripe, from its first chunk on. The caller writes every chunk (the first too),
  // syncs and keeps; each after the one before. An error is given to Keep, at once. A stripe that
  // is destroyed before fails its checkpoint.
  class Incoming {
   public:
    ~Incoming();
    Status Write(const v1::SaveChunk& chunk);       // any thread
    Status Sync();                                  // any thread
    StatusOr<uint64_t> Keep(const Status& so_far);  // its bytes; on the collector's thread

    const CheckpointId& id() const { return id_; }

   private:
    friend class StripeCollector;
    Incoming(StripeCollector* collector, CheckpointId id, uint32_t rank, std::shared_ptr<Life> life)
        : collector_(collector), id_(id), rank_(rank), life_(std::move(life)) {}
    Status CheckListed();
    Status Fail(const Status& why);
    StripeCollector* const collector_;
    const CheckpointId id_;
    const uint32_t rank_;
    const std::shared_ptr<Life> life_;
    std::unique_ptr<StripeWriter> writer_;  // null when it is over
  };
  StatusOr<std::unique_ptr<Incoming>> Begin(const v1::SaveChunk& first);

  // How the checkpoint of `step` in `epoch` (0: in the present one) ended; nothing while it has
  // not, and while an older one is read back: so a disk that is slow to read holds up who saves.
  std::optional<Status> Outcome(uint64_t epoch, uint64_t step) const;

  // The ranks whose stripes of a checkpoint are not there yet, of one that some rank has begun.
  std::string Missing(const CheckpointId& id) const;

  uint64_t job() const { return record_.job(); }

 private:
  // The members of an epoch, and which of its stores this is.
  struct Crew {
    v1::EpochRecord record;
    Share share;
  };
  struct Open {
    std::shared_ptr<const Crew> crew;
    std::map<uint32_t, std::unique_ptr<StripeWriter>> stripes;  // that are synced
    std::map<uint32_t, StoredPart> parts;
    std::map<uint32_t, bool> begun;
    uint64_t listed_bytes = 0;  // about: of the manifest so far
    std::shared_ptr<Life> life = std::make_shared<Life>();
    std::optional<uint64_t> opening;  // of the store, when the first stripe began
  };
  std::shared_ptr<const Crew> CrewOf(const CheckpointId& id) const;  // null: of no epoch in reach
  Status CheckStripe(const v1::SaveChunk& chunk) const;
  void FailMissed(const CheckpointId& id, uint64_t incarnation);
  void FailWhereGone(const CheckpointId& id);
  bool IsPresent(uint64_t incarnation) const;
  std::vector<uint32_t> MissingRanks(const Open& open) const;
  Status CheckRoom() const;
  bool HasOwnStripes(const Open& open) const;
  void CompleteIfAllCame(const CheckpointId& id);
  void Complete(const CheckpointId& id);
  StatusOr<v1::CheckpointManifest> ManifestOf(const CheckpointId& id,
                                              const std::map<uint32_t, Stripe>& stripes);
  void Fail(CheckpointId id, const Status& why);  // a copy: the caller's may lie in open_

  CheckpointStore* const store_;
  const std::function<int64_t()> unix_seconds_;
  StoreQuota* const quota_;
  const ReadBack read_back_;
  v1::EpochRecord record_;  // epoch 0: no rank may save
  Share share_;
  std::map<uint64_t, std::shared_ptr<const Crew>> crews_;  // the last epochs of this history
  Divided divided_;
  std::map<CheckpointId, Open> open_;
  std::map<CheckpointId, Status> outcomes_;
  std::set<CheckpointId> unread_;  // complete ones that are being read back
};

}  // namespace ringwood
