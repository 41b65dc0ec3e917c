// A further store's answers to the main one (proto/ringwood/v1/parts.proto). Decisions are made on
// the store's loop.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "ringwood/v1/parts.grpc.pb.h"
#include "server/calls/streams.h"
#include "server/store/checkpoint_store.h"
#include "server/store/service/checker.h"
#include "server/store/service/stripe_collector.h"

namespace ringwood {

class PartDoor : public v1::Parts::CallbackService {
 public:
  // All outlive this; the loop's thread ends before it. `directory`: for people.
  PartDoor(CheckpointStore* store, StripeCollector* collector, Checker* checker, Loop* loop,
           std::string directory);

  // After anything that may complete or end a part.
  void Changed();
  void Close(const Status& why);

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext*, const v1::ListPartsRequest* request,
                                 v1::ListPartsResponse* response) override;
  grpc::ServerWriteReactor<v1::GatheredPart>* Gather(grpc::CallbackServerContext*,
                                                     const v1::GatherRequest* request) override;
  grpc::ServerUnaryReactor* Remove(grpc::CallbackServerContext*,
                                   const v1::RemovePartsRequest* request,
                                   v1::RemovePartsResponse* response) override;
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext*, const v1::CheckPartRequest* request,
                                  v1::CheckPartResponse* response) override;

 private:
  using Stream = OutStream<v1::GatheredPart>;

  // A stream takes one message or end at a time: while a piece is on its way it is not touched.
  struct Gathering {
    CheckpointId id;
    Stream* stream = nullptr;
    std::string manifest;  // serialised, when it is complete
    size_t sent = 0;       // bytes of it
    bool sending = false;
    bool told = false;  // all of it
    bool left = false;  // its caller went away: when the piece was sent, it ends
    uint64_t digest = 0;
  };
  Status Begin(uint64_t call, const v1::GatherRequest& request, Stream* stream);
  StatusOr<v1::ListPartsResponse> Listed(uint64_t main);
  void RemoveOne(const CheckpointId& id);
  // Nothing to do: it is not complete yet.
  Status Look(Gathering* gathering);
  void SendPiece(Gathering* gathering);
  void Sent(uint64_t call);
  void Left(uint64_t call);  // the main store gives it up, or is gone

  CheckpointStore* const store_;
  StripeCollector* const collector_;
  Checker* const checker_;
  Loop* const loop_;
  const std::string directory_;
  std::atomic<uint64_t> next_call_{1};
  std::map<uint64_t, Gathering> gatherings_;  // touched only on loop_
};

}  // namespace ringwood
