// Events for the membership and the actions that it returns: plain values, so that a test is a
// script, and coordinator.cc only passes them between gRPC, the disk and the state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "proto/store_places.h"
#include "ringwood/v1/control.pb.h"
#include "ringwood/v1/state.pb.h"
#include "server/calls/member_label.h"
#include "server/store/record/checkpoint_key.h"

namespace ringwood {

using CallId = uint64_t;    // names a held call; the shell never uses 0
using StreamId = uint64_t;  // names an Attend stream; the shell never uses 0

namespace event {

struct Join {
  CallId call;
  v1::JoinRequest request;
  uint64_t fresh_job;  // a random number, the job's name if this call begins one
};
struct Agree {
  CallId call;
  v1::AgreeRequest request;
};
struct Vote {
  CallId call;
  v1::VoteRequest request;
};
struct Reattach {  // to a coordinator that was started again
  CallId call;
  v1::ReattachRequest request;
};
struct Leave {
  CallId call;
  v1::LeaveRequest request;
};
struct Pull {  // from a reader that is no member
  CallId call;
  v1::PullRequest request;
};
struct CallGone {  // the caller of a held call went away
  CallId call;
};
struct Heartbeat {  // the first one of a stream starts its attendance
  StreamId stream;
  v1::Beat beat;
};
struct StreamBroken {
  StreamId stream;
};
struct BaseFound {  // answers FindBase
  StatusOr<std::optional<CheckpointBase>> base;
};
struct Persisted {  // answers Persist
  Status status;
};
struct Tick {};
struct Stop {  // the server ends; nothing is accepted afterwards
  std::string reason;
};

}  // namespace event

using Event = std::variant<event::Join, event::Agree, event::Vote, event::Reattach, event::Leave,
                           event::Pull, event::CallGone, event::Heartbeat, event::StreamBroken,
                           event::BaseFound, event::Persisted, event::Tick, event::Stop>;

namespace action {

// Every call gets exactly one.
struct Reply {
  CallId call;
  std::variant<Status, v1::JoinResponse, v1::AgreeResponse, v1::Commit, v1::LeaveResponse,
               v1::ReattachResponse, v1::PullResponse>
      answer;
};
struct FindBase {
  uint64_t job;                         // the newest good checkpoint of this job; 0: of any job
  std::vector<StorePlace> stores = {};  // further ones that have joined
};
struct Persist {  // synced, before any later action of the epoch
  v1::EpochRecord record;
};
struct Activate {  // the epoch has begun: the store accepts checkpoints of it and of no older one
  v1::EpochRecord record;
};
struct Notify {
  StreamId stream;
  v1::Notice notice;
};
struct CloseStream {
  StreamId stream;
  Status status;
};
struct Verdict {  // the epoch is over: who failed, when and why
  v1::Failure failure;
};
struct Await {  // for whoever started the ranks: these have not joined, and others wait for them
  std::vector<uint32_t> ranks;
};
struct Report {       // a line for the log
  const char* event;  // its name: a literal
  std::string text;
  LogLevel level = LogLevel::kInfo;
};

}  // namespace action

using Action = std::variant<action::Reply, action::FindBase, action::Persist, action::Activate,
                            action::Notify, action::CloseStream, action::Verdict, action::Await,
                            action::Report>;
using Actions = std::vector<Action>;

}  // namespace ringwood
