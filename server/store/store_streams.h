// The two streams of the store service as gRPC reactors: they pass every event on and do what they
// are told. Both delete themselves when gRPC is done with them.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "ringwood/v1/store.grpc.pb.h"
#include "server/calls/held_calls.h"

namespace ringwood {

// Receives one worker's stripe. `take` gets each chunk and calls Next or Answer when it is done
// with it; null: the stream ended without a last chunk.
class SaveStream : public grpc::ServerReadReactor<v1::SaveChunk> {
 public:
  using Take = std::function<void(SaveStream*, std::unique_ptr<v1::SaveChunk>)>;

  SaveStream(v1::SaveReceipt* receipt, Take take) : receipt_(receipt), take_(std::move(take)) {
    Next();
  }

  void Next() {
    chunk_ = std::make_unique<v1::SaveChunk>();
    StartRead(chunk_.get());
  }
  void Answer(const StatusOr<uint64_t>& bytes) {
    if (bytes.ok()) receipt_->set_bytes(*bytes);
    Finish(ToGrpc(bytes.status()));
  }

 private:
  void OnReadDone(bool ok) override { take_(this, ok ? std::move(chunk_) : nullptr); }
  void OnDone() override { delete this; }

  v1::SaveReceipt* const receipt_;
  const Take take_;
  std::unique_ptr<v1::SaveChunk> chunk_;
};

// Sends one item.
class LoadStream : public grpc::ServerWriteReactor<v1::LoadChunk> {
 public:
  struct Callbacks {
    std::function<void(LoadStream*)> more;       // after each chunk that was sent: Send or End
    std::function<void(LoadStream*)> cancelled;  // the caller went away: End, unless `more` will
    std::function<void()> over;                  // gRPC is done with it
  };

  explicit LoadStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void Send(v1::LoadChunk chunk) {
    chunk_ = std::move(chunk);
    StartWrite(&chunk_);
  }
  void End(const Status& status) { Finish(ToGrpc(status)); }

 private:
  void OnWriteDone(bool ok) override {
    if (ok) return callbacks_.more(this);
    End(Aborted("the caller went away"));
  }
  void OnCancel() override { callbacks_.cancelled(this); }
  void OnDone() override {
    callbacks_.over();
    delete this;
  }

  const Callbacks callbacks_;
  v1::LoadChunk chunk_;
};

}  // namespace ringwood
