#include "server/updates/update_service.h"

#include <atomic>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/loop.h"
#include "ringwood/v1/updates.grpc.pb.h"
#include "server/calls/limits.h"
#include "server/calls/streams.h"
#include "server/calls/turnstile.h"
#include "server/store/service/sender.h"

namespace ringwood {
namespace {

constexpr double kCallSeconds = 600;  // for the log of a long job to be looked through
constexpr double kDrainSeconds = 5;
// Most replays that send at once, each a piece of 1 MiB in two copies; ranks wait in line.
constexpr size_t kMaxReplays = 32;
constexpr size_t kMaxWaiting = 2 * kMaxWorld;

Status NoLog() { return Refused("this server keeps no update log: start it with --update-log"); }
Status Stopping() { return Unavailable("the store is stopping"); }

}  // namespace

class UpdateService::Service : public v1::Updates::CallbackService {
 public:
  explicit Service(std::unique_ptr<UpdateLog> log) : log_(std::move(log)), loop_("updates") {}

  grpc::ServerReadReactor<v1::LogPiece>* Log(grpc::CallbackServerContext*,
                                             v1::LogReceipt*) override {
    return new LogStream([this](LogStream* stream, std::unique_ptr<v1::LogPiece> piece) {
      std::shared_ptr<v1::LogPiece> shared = std::move(piece);
      const bool posted = loop_.Post([this, stream, shared] { Take(stream, shared.get()); });
      if (!posted) stream->End(Stopping());
    });
  }

  grpc::ServerWriteReactor<v1::LogPiece>* Replay(grpc::CallbackServerContext*,
                                                 const v1::ReplayRequest* request) override {
    auto reading = std::make_shared<Reading>();
    reading->request = *request;
    const auto more = [this, reading](ReplayStream* stream) {
      if (!loop_.Post([this, reading, stream] { Continue(stream, reading.get()); })) {
        stream->End(Stopping());
      }
    };
    const uint64_t id = next_call_++;
    auto* stream = new ReplayStream({more,
                                     [this, id](ReplayStream* self) {
                                       if (replays_.Cancel(id)) {
                                         self->End(Aborted("the caller went away"));
                                       }
                                     },
                                     [this, id] { replays_.Leave(id); }});
    if (!replays_.Enter(id, [more, stream] { more(stream); })) {
      stream->End(Exhausted(absl::StrFormat("%d replays wait already: try again", kMaxWaiting)));
    }
    return stream;
  }

  void SetEpoch(const v1::EpochRecord& record) {
    loop_.PostReserved([this, record] {
      record_ = record;
      if (log_ == nullptr) return;
      const Status begun = log_->SetEpoch(record);
      if (!begun.ok()) Log(LogLevel::kError, Message(begun));
    });
  }

  void LeaveRoomFor(uint64_t checkpoint_bytes) {
    loop_.PostReserved([this, checkpoint_bytes] {
      if (log_ != nullptr) log_->LeaveRoomFor(checkpoint_bytes);
    });
  }

  void Keep(uint64_t job, std::vector<CheckpointId> kept) {
    loop_.PostReserved([this, job, kept = std::move(kept)] {
      if (log_ == nullptr || job != record_.job()) return;
      const Status forgot = log_->Forget(kept);
      if (!forgot.ok()) Log(LogLevel::kWarning, "old rounds stay: " + Message(forgot));
    });
  }

  StatusOr<UpdateLog::Rounds> After(uint64_t job, const CheckpointId& id) {
    auto rounds = std::make_shared<UpdateLog::Rounds>();
    if (log_ == nullptr) return *rounds;
    const auto look = [this, job, id, rounds]() -> Status {
      RW_ASSIGN_OR_RETURN(*rounds, log_->After(job, id));
      return OkStatus();
    };
    RW_RETURN_IF_ERROR(loop_.Call(look, Seconds(kCallSeconds)));
    return *rounds;
  }

  const UpdateLog* log() const { return log_.get(); }

  void Stop() {
    (void)loop_.Call([] { return OkStatus(); }, Seconds(kDrainSeconds));
  }

 private:
  using LogStream = InStream<v1::LogPiece>;
  using ReplayStream = OutStream<v1::LogPiece>;
  struct Reading {
    v1::ReplayRequest request;
    bool begun = false;
    UpdateLog::Rounds rounds;
    size_t round = 0;
    std::optional<v1::LoggedRound> head;  // of the present round
    int piece = 0;
    uint64_t offset = 0;
  };

  using v1::Updates::CallbackService::Log;
  static void Log(LogLevel level, const std::string& text) { ringwood::Log(level, text); }

  void Take(LogStream* stream, const v1::LogPiece* piece);
  void Continue(ReplayStream* stream, Reading* reading);
  StatusOr<v1::LogPiece> Next(Reading* reading);

  const std::unique_ptr<UpdateLog> log_;  // null: nothing is kept. Touched on loop_; see its words
  v1::EpochRecord record_;                // touched only on loop_
  std::atomic<uint64_t> next_call_{1};
  Turnstile replays_{kMaxReplays, kMaxWaiting};
  Loop loop_;  // last: its thread uses the others
};

void UpdateService::Service::Take(LogStream* stream, const v1::LogPiece* piece) {
  if (log_ == nullptr) return stream->End(NoLog());
  if (piece == nullptr) return stream->End(Aborted("the round ended without its last piece"));
  Status taken = CheckSender(record_, piece->epoch(), piece->rank(), piece->incarnation());
  if (!taken.ok()) return stream->End(taken);
  const StatusOr<bool> complete = log_->Take(*piece);
  if (!complete.ok()) return stream->End(complete.status());
  *complete ? stream->End(OkStatus()) : stream->Next();
}

StatusOr<v1::LogPiece> UpdateService::Service::Next(Reading* reading) {
  if (!reading->head) {
    RW_ASSIGN_OR_RETURN(reading->head, log_->Head(reading->rounds, reading->round));
    reading->piece = 0;
    reading->offset = 0;
  }
  v1::LogPiece piece;
  RW_ASSIGN_OR_RETURN(*piece.mutable_data(),
                      log_->Piece(reading->rounds, reading->round, *reading->head, reading->piece));
  piece.set_epoch(reading->head->epoch());
  piece.set_step(reading->head->step());
  piece.set_offset(reading->offset);
  piece.set_checksum(reading->head->digests(reading->piece));
  reading->offset += piece.data().size();
  if (++reading->piece == reading->head->digests_size()) {
    piece.set_last(true);
    reading->head.reset();
    ++reading->round;
  }
  return piece;
}

void UpdateService::Service::Continue(ReplayStream* stream, Reading* reading) {
  if (log_ == nullptr) return stream->End(NoLog());
  const v1::ReplayRequest& request = reading->request;
  if (!std::exchange(reading->begun, true)) {
    reading->rounds = log_->Path(request.after_step(), request.last_step());
    if (reading->rounds.rounds.size() != request.last_step() - request.after_step()) {
      return stream->End(NotFound(absl::StrFormat(
          "the update log has %d of the rounds after step %d up to step %d",
          reading->rounds.rounds.size(), request.after_step(), request.last_step())));
    }
  }
  if (reading->round == reading->rounds.rounds.size()) return stream->End(OkStatus());
  StatusOr<v1::LogPiece> piece = Next(reading);
  if (!piece.ok()) return stream->End(piece.status());
  stream->Send(*std::move(piece));
}

StatusOr<std::unique_ptr<UpdateService>> UpdateService::Create(const Options& options) {
  std::unique_ptr<UpdateLog> log;
  if (!options.directory.empty() &&
      (options.log.on || std::filesystem::exists(options.directory))) {
    RW_ASSIGN_OR_RETURN(log, UpdateLog::Open(options.directory, options.log, options.patience));
  }
  return std::unique_ptr<UpdateService>(
      new UpdateService(std::make_unique<Service>(std::move(log))));
}

UpdateService::UpdateService(std::unique_ptr<Service> service) : service_(std::move(service)) {}
UpdateService::~UpdateService() = default;
grpc::Service* UpdateService::service() { return service_.get(); }
bool UpdateService::on() const { return service_->log() != nullptr && service_->log()->on(); }
void UpdateService::SetEpoch(const v1::EpochRecord& record) { service_->SetEpoch(record); }
void UpdateService::LeaveRoomFor(uint64_t checkpoint_bytes) {
  service_->LeaveRoomFor(checkpoint_bytes);
}
void UpdateService::Keep(uint64_t job, std::vector<CheckpointId> kept) {
  service_->Keep(job, std::move(kept));
}
void UpdateService::Stop() { service_->Stop(); }

CheckpointId UpdateService::Reach(uint64_t job, const CheckpointId& id) {
  if (!on()) return id;
  const auto found = service_->After(job, id);
  if (!found.ok() || found->rounds.empty()) return id;
  return {found->rounds.back().epoch, found->rounds.back().step};
}

StatusOr<CheckpointBase> UpdateService::Extend(CheckpointBase base) {
  RW_ASSIGN_OR_RETURN(const auto rounds, service_->After(base.job, {base.epoch, base.step}));
  if (rounds.rounds.empty()) return base;
  if (!on()) {
    Log(LogLevel::kWarning,
        absl::StrFormat("%d logged rounds after step %d are given up: --update-log replays them",
                        rounds.rounds.size(), base.step));
    return base;
  }
  Status problem;
  base.logged_steps = service_->log()->CountGood(rounds, &problem);
  if (base.logged_steps < rounds.rounds.size()) {
    // A disk that answers with an error today may answer tomorrow; damage stays.
    if (problem.code() != StatusCode::kDataLoss) return problem;
    Log(LogLevel::kError,
        absl::StrFormat("of %d logged rounds after step %d the first %d can be used: %s",
                        rounds.rounds.size(), base.step, base.logged_steps, Message(problem)));
  }
  return base;
}

}  // namespace ringwood
