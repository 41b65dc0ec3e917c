// The update log as a worker sees it: over gRPC in grpc/update_client.h; tests have their own.
// Calls block.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "client/updates/round_body.h"

namespace ringwood {

struct RoundName {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t rank = 0;
  uint64_t incarnation = 0;
};

class UpdateClient {
 public:
  virtual ~UpdateClient() = default;

  // OK when the round outlives the processes. Refused: it does not follow the last one that is
  // logged. `restart`: the log begins again with it, see UpdateWriter.
  virtual Status Log(const RoundName& name, const RoundBody& body, bool restart,
                     Duration timeout) = 0;

  // The rounds after `after` up to `last`, in order; an error of `take` ends the call and is
  // returned.
  virtual Status Replay(uint64_t after, uint64_t last,
                        const std::function<Status(uint64_t step, const std::string& body)>& take,
                        Duration timeout) = 0;

  // Ends running and later calls with an error. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace ringwood
