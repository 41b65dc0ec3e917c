// The update log as a worker sees it: over gRPC in grpc/update_client.h; tests have their own.
// Calls block.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"

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

  // A round on its way; destroyed before Finish, or cancelled, it is none.
  class Round {
   public:
    virtual ~Round() = default;
    virtual void Write(std::span<const std::byte> bytes) = 0;  // errors come with Finish
    // OK when the round outlives the processes. Refused: it does not follow the last one that is
    // logged.
    virtual Status Finish(std::span<const std::byte> last) = 0;
  };
  // `restart`: the log begins again with it, see UpdateWriter.
  virtual std::unique_ptr<Round> Begin(const RoundName& name, bool restart, Duration timeout) = 0;

  // Takes a round; in place of what it keeps it leaves memory for the next one in `body`.
  using TakeRound = std::function<Status(uint64_t step, std::string* body)>;
  // The rounds after `after` up to `last`, in order; an error of `take` ends the call and is
  // returned.
  virtual Status Replay(uint64_t after, uint64_t last, const TakeRound& take, Duration timeout) = 0;

  // Ends the rounds that are on their way, or all running and later calls, with an error. Any
  // thread.
  virtual void CancelRounds() = 0;
  virtual void Cancel() = 0;
};

}  // namespace ringwood
