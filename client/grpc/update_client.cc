#include "client/grpc/update_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "client/grpc/calls.h"
#include "client/grpc/channel.h"
#include "ringwood/v1/updates.grpc.pb.h"

namespace ringwood {
namespace {

// A round as a stream of pieces.
class GrpcRound : public UpdateClient::Round {
 public:
  static constexpr size_t kPieceBytes = 1 << 20;  // what the store takes at once

  GrpcRound(v1::Updates::Stub* stub, Calls* calls, const RoundName& name, bool restart,
            Duration timeout, std::string what)
      : calls_(calls),
        scope_(calls, &context_, timeout),
        what_(std::move(what)),
        writer_(stub->Log(&context_, &receipt_)) {
    piece_.set_epoch(name.epoch);
    piece_.set_step(name.step);
    piece_.set_rank(name.rank);
    piece_.set_incarnation(name.incarnation);
    piece_.set_restart(restart);
  }
  ~GrpcRound() override {
    if (finished_) return;
    context_.TryCancel();
    (void)writer_->Finish();
  }

  void Write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      std::string* const data = piece_.mutable_data();
      const size_t taken = std::min(bytes.size(), kPieceBytes - data->size());
      data->append(reinterpret_cast<const char*>(bytes.data()), taken);
      bytes = bytes.subspan(taken);
      if (data->size() == kPieceBytes) Send();
    }
  }

  Status Finish(std::span<const std::byte> last) override {
    Write(last);
    piece_.set_last(true);
    Send();
    writer_->WritesDone();
    finished_ = true;
    const grpc::Status ended = writer_->Finish();
    return calls_->Translate(ended, what_);
  }

 private:
  void Send() {
    piece_.set_checksum(Digest(std::as_bytes(std::span(piece_.data()))));
    open_ = open_ && writer_->Write(piece_);
    piece_.set_offset(piece_.offset() + piece_.data().size());
    piece_.mutable_data()->clear();
  }

  Calls* const calls_;
  grpc::ClientContext context_;
  const Calls::Scope scope_;
  const std::string what_;
  v1::LogReceipt receipt_;
  v1::LogPiece piece_;
  const std::unique_ptr<grpc::ClientWriter<v1::LogPiece>> writer_;
  bool open_ = true;
  bool finished_ = false;
};

class GrpcUpdateClient : public UpdateClient {
 public:
  GrpcUpdateClient(const std::string& address, const Access& access)
      : address_(address),
        stub_(v1::Updates::NewStub(
            MakeChannel(address, access, OwnConnection::Patient(Seconds(kStoreSilenceSeconds))))) {}

  std::unique_ptr<Round> Begin(const RoundName& name, bool restart, Duration timeout) override {
    return std::make_unique<GrpcRound>(stub_.get(), &calls_, name, restart, timeout,
                                       "log a round at the store " + address_);
  }

  void CancelRounds() override { calls_.CancelRunning(); }

  Status Replay(uint64_t after, uint64_t last, const TakeRound& take, Duration timeout) override {
    grpc::ClientContext context;
    const Calls::Scope scope(&calls_, &context, timeout);
    v1::ReplayRequest request;
    request.set_after_step(after);
    request.set_last_step(last);
    const auto reader = stub_->Replay(&context, request);
    v1::LogPiece piece;
    std::string body;
    uint64_t next = after + 1;
    Status wrong;
    while (wrong.ok() && reader->Read(&piece)) {
      const auto data = std::as_bytes(std::span(piece.data()));
      if (piece.step() != next || piece.offset() != body.size()) {
        wrong = Corrupt(absl::StrFormat("byte %d of step %d came, not byte %d of step %d",
                                        piece.offset(), piece.step(), body.size(), next));
      } else if (Digest(data) != piece.checksum()) {
        wrong = Corrupt(absl::StrFormat("the logged round of step %d arrived damaged", next));
      } else {
        body += piece.data();
        if (!piece.last()) continue;
        wrong = take(next++, &body);
        body.clear();
      }
    }
    if (!wrong.ok()) context.TryCancel();
    const grpc::Status ended = reader->Finish();
    RW_RETURN_IF_ERROR(wrong);
    RW_RETURN_IF_ERROR(calls_.Translate(ended, "replay at the store " + address_));
    if (next == last + 1) return OkStatus();
    return Corrupt(absl::StrFormat("the replay ends with step %d, not %d", next - 1, last));
  }

  void Cancel() override { calls_.Cancel(Aborted("the session is closed")); }

 private:
  const std::string address_;
  const std::unique_ptr<v1::Updates::Stub> stub_;
  Calls calls_;
};

}  // namespace

std::unique_ptr<UpdateClient> MakeGrpcUpdateClient(const std::string& address,
                                                   const Access& access) {
  return std::make_unique<GrpcUpdateClient>(address, access);
}

}  // namespace ringwood
