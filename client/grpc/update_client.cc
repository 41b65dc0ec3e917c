#include "client/grpc/update_client.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "client/grpc/calls.h"
#include "client/grpc/channel.h"
#include "ringwood/v1/updates.grpc.pb.h"

namespace ringwood {
namespace {

class GrpcUpdateClient : public UpdateClient {
 public:
  GrpcUpdateClient(const std::string& address, const std::string& token)
      : address_(address),
        stub_(v1::Updates::NewStub(
            MakeChannel(address, token, {.reconnection = kEagerReconnection}))) {}

  Status Log(const RoundName& name, const RoundBody& body, bool restart,
             Duration timeout) override {
    grpc::ClientContext context;
    const Calls::Scope scope(&calls_, &context, timeout);
    v1::LogReceipt receipt;
    const auto writer = stub_->Log(&context, &receipt);
    v1::LogPiece piece;
    piece.set_epoch(name.epoch);
    piece.set_step(name.step);
    piece.set_rank(name.rank);
    piece.set_incarnation(name.incarnation);
    piece.set_restart(restart);
    body.ForEachPiece([&](uint64_t offset, std::span<const std::byte> data, bool last) {
      piece.set_offset(offset);
      piece.set_data(data.data(), data.size());
      piece.set_checksum(Digest(data));
      piece.set_last(last);
      if (!last) return writer->Write(piece);
      writer->WriteLast(piece, grpc::WriteOptions());
      return true;
    });
    return calls_.Translate(writer->Finish(), "log a round at the store " + address_);
  }

  Status Replay(uint64_t after, uint64_t last,
                const std::function<Status(uint64_t, const std::string&)>& take,
                Duration timeout) override {
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
        if (piece.last()) wrong = take(next++, std::exchange(body, {}));
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
                                                   const std::string& token) {
  return std::make_unique<GrpcUpdateClient>(address, token);
}

}  // namespace ringwood
