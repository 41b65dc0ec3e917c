// A worker's attendance of one epoch: its heartbeats, and the calls that go over the same
// connection. Where the coordinator is lost it looks for it as long as the grace lasts
// (proto/attachment.h decides), calls Reattach and goes on over a new connection; a call that broke
// is made again, so that its caller only waits longer.
//
// Its loop sends the heartbeats and looks for the coordinator. gRPC's threads post to it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "base/status.h"
#include "client/connection/control.h"
#include "client/grpc/coordinator_line.h"
#include "client/grpc/heartbeat_stream.h"
#include "client/grpc/reattaching.h"
#include "proto/attachment.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {

class EpochAttendance {
 public:
  struct Options {
    std::string address;  // of the coordinator
    Access access;
    Attendance attendance;
    std::function<v1::ReattachRequest()> known;  // while no call is being made
    EpochFailed failed;                          // once, when the epoch is over; any thread
  };
  // A call in flight: makes it with this stub and context, and takes the answer before it returns.
  using Call = std::function<grpc::Status(v1::Coordinator::Stub*, grpc::ClientContext*)>;

  explicit EpochAttendance(Options options);
  ~EpochAttendance();  // no callback runs afterwards

  // Waits until the coordinator has a heartbeat: OK, or why the epoch ended before.
  Status AwaitConfirmation(Duration timeout);

  // Makes a call, and makes it again when the coordinator has come back. One at a time. `what`
  // names it in errors.
  Status Make(const std::string& what, Duration timeout, const Call& call);

  // The epoch is over on this member, with `why`. Any thread.
  void Interrupt(const Status& why) { End(why, false); }

  // From here on the end of the stream is no failure, and nobody looks for the coordinator. The
  // heartbeats go on.
  void Quiet();

  // Quiet, and makes this last call; to a coordinator that is away as soon as it is back.
  grpc::Status Leave(Duration timeout, const Call& call);

 private:
  using Act = Attachment::Act;
  using Line = CoordinatorLine;

  std::shared_ptr<Line> PlainLine() const;
  std::shared_ptr<Line> EagerLine() const;  // a fresh one for each attempt
  bool Looks() const { return options_.attendance.grace > Duration::zero(); }
  std::string Coordinator() const { return "the coordinator at " + options_.address; }
  bool Settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return tie_.attached() || tie_.over() || quiet_;
  }
  // Calls break with the connection; whoever waits looks at tie_ again.
  Act Took(Act act) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Follow(Act act);  // what is to be done where it happened
  void End(const Status& why, bool recovers);
  StatusOr<uint64_t> BeginCall(grpc::ClientContext* context, TimePoint end, const std::string& what,
                               std::shared_ptr<Line>* line);
  // Nothing: the call is to be made again.
  std::optional<Status> EndCall(grpc::ClientContext* context, uint64_t number, TimePoint end,
                                const std::string& what, const grpc::Status& status);

  // On gRPC's threads; StreamEnded on loop_ where the first loss is the end.
  void Confirmed();
  void Noticed(const v1::Notice& notice);
  void StreamEnded(const Line& line, const grpc::Status& status);
  bool OpensAgain();  // false: as often as it may
  // Whether the connection of a stream that has ended still stands.
  bool Stands(const Line& line, const grpc::Status& status);

  // On loop_.
  void Open(std::shared_ptr<Line> line);
  void Beat();
  void BeatOn();
  void Reattach();
  void Ask();
  void Answered();
  void Look();

  const Options options_;

  absl::Mutex mutex_;
  Attachment tie_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Line> line_ ABSL_GUARDED_BY(mutex_);            // of the newest stream
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);  // being made over it
  TimePoint lost_since_ ABSL_GUARDED_BY(mutex_);
  bool recovers_ ABSL_GUARDED_BY(mutex_) = true;  // as EpochFailed has it
  bool quiet_ ABSL_GUARDED_BY(mutex_) = false;
  int opened_again_ ABSL_GUARDED_BY(mutex_) = 0;

  std::unique_ptr<HeartbeatStream> stream_;   // touched only on loop_
  std::unique_ptr<Reattaching> reattaching_;  // touched only on loop_
  bool looking_ = false;                      // touched only on loop_
  Loop loop_;                                 // last: its thread uses the others
};

}  // namespace ringwood
