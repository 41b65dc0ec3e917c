// Streams of messages as gRPC reactors: they pass every event on and do what they are told. Both
// delete themselves when gRPC is done with them.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "server/calls/held_calls.h"

namespace ringwood {

// Receives messages. `take` gets each and calls Next or End when it is done with it; null: the
// stream ended.
template <typename Message>
class InStream : public grpc::ServerReadReactor<Message> {
 public:
  using Take = std::function<void(InStream*, std::unique_ptr<Message>)>;

  explicit InStream(Take take) : take_(std::move(take)) { Next(); }

  void Next() {
    message_ = std::make_unique<Message>();
    this->StartRead(message_.get());
  }
  void End(const Status& status) { this->Finish(ToGrpc(status)); }

 private:
  void OnReadDone(bool ok) override { take_(this, ok ? std::move(message_) : nullptr); }
  void OnDone() override { delete this; }

  const Take take_;
  std::unique_ptr<Message> message_;
};

// Sends messages.
template <typename Message>
class OutStream : public grpc::ServerWriteReactor<Message> {
 public:
  struct Callbacks {
    std::function<void(OutStream*)> more;       // after each message that was sent: Send or End
    std::function<void(OutStream*)> cancelled;  // the caller went away: End, unless `more` will
    std::function<void()> over;                 // gRPC is done with it
  };

  explicit OutStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  // One that has ended.
  static OutStream* Refuse(const Status& why) {
    auto* stream = new OutStream({[](OutStream*) {}, [](OutStream*) {}, [] {}});
    stream->End(why);
    return stream;
  }

  void Send(Message message) {
    message_ = std::move(message);
    this->StartWrite(&message_);
  }
  void End(const Status& status) { this->Finish(ToGrpc(status)); }

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
  Message message_;
};

}  // namespace ringwood
