// A reducer's connection to its coordinator. No call blocks; callbacks run on gRPC's threads and
// only post.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "proto/access.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

class ControlLink {
 public:
  // `address` "host:port"; connects when first used. Its calls carry the token. A connection that
  // is silent for `silence` (the failure timeout) is broken.
  ControlLink(const std::string& address, const Access& access, Duration silence);
  // Cancels calls in flight. No callback runs afterwards, and nothing of this link remains on
  // gRPC's threads. Not from a callback.
  ~ControlLink();

  // One at a time.
  void Join(const v1::JoinRequest& request, Duration deadline,
            std::function<void(StatusOr<v1::JoinResponse>)> done);

  // To a coordinator that was started again.
  void Reattach(const v1::ReattachRequest& request, std::function<void(const Status&)> done);

  struct StreamCallbacks {
    std::function<void()> confirmed;  // at most once: the coordinator has a heartbeat
    std::function<void(const v1::Notice&)> noticed;
    std::function<void(const Status&)> over;  // once, when it has ended for whatever reason
  };
  // Opens the heartbeat stream. Once.
  void Attend(StreamCallbacks callbacks);
  void Beat(const v1::Beat& beat);  // dropped while the one before is still being sent

  bool connected() const;
  bool Broke() const;  // see ConnectionBroke

  void Leave(const v1::LeaveRequest& request, Duration deadline);  // the answer is ignored

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace ringwood
