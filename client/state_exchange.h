// The state of the training as a worker that comes later needs it: the trainer's items, and who
// sends or gets them in the present epoch.
//
// The state of the base is with a trainer from when it has updated its weights to its next update.
// So it is sent when finish_step begins, from a copy; what comes is put in place before finish_step
// returns, and the update with that step's gradients leads to the state that the others have.
//
// Trainer's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/connection/epoch_link.h"
#include "client/connection/state_receiver.h"

namespace ringwood {

class StateExchange {
 public:
  // An item of the trainer's, whose memory stays where it is; another with the name replaces it.
  Status Register(const std::string& name, std::span<std::byte> data);
  // Items are given when they are wanted, and forgotten once they are sent, or out of date.
  void OnRequest(bool on) { on_request_ = on; }

  // The link of an epoch is connected; `receiving`: this worker gets the state.
  void Begin(EpochLink* link, bool receiving);

  // finish_step begins: what came with an earlier one is released. Refused: the items are wanted,
  // and not given yet.
  Status Serve(EpochLink* link);
  // The step is finished: what was given for a rank that did not come is the state before it.
  void Stepped() { ForgetGiven(); }
  bool wanted() const { return wanted_; }  // it was refused for that; any thread

  // Waits for the state and puts it in place, as far as items of that name are registered; the
  // others are kept for the trainer to read.
  Status Take();
  // NotFound: no such item came.
  StatusOr<std::span<const std::byte>> Received(const std::string& name) const;

 private:
  // Items in their order, and where each is by its name.
  struct Items {
    std::vector<StateItem> list;
    std::map<std::string, size_t> places;
    void Put(const std::string& name, std::span<std::byte> data);
    const StateItem* Find(const std::string& name) const;  // null: none
  };

  void ForgetGiven() {
    if (on_request_) items_ = {};
  }

  Items items_;
  bool on_request_ = false;
  std::atomic<bool> wanted_{false};
  uint64_t served_ = 0;                      // the last epoch whose newcomers have been served
  std::shared_ptr<StateReceiver> receiver_;  // until its state is taken
  std::shared_ptr<StateReceiver> taken_;     // whose state came with the last step, or null
  Items received_;                           // over taken_
};

}  // namespace ringwood
