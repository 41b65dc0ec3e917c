// Incoming messages: UCX's active-message handlers, and the queue between them and the inbox. On
// the loop's thread.
//
// Handlers run inside ucp_worker_progress. They only move data and queue: a callback of the user
// may close the node and destroy the worker, so none may run from there.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "transport/inbox.h"
#include "transport/poll_pacer.h"
#include "transport/refusals.h"
#include "transport/ucx/sender.h"
#include "transport/ucx/wiring.h"

namespace ringwood {

class UcxReceiver {
 public:
  // Most messages kept until Join: peers that learned of the epoch first may already send.
  static constexpr size_t kMaxBeforeJoin = 8192;  // twice the largest world

  struct Callbacks {
    // Called with every message; returns true if it was a note and was handled.
    std::function<bool(const Frame&, std::span<const std::byte>)> note;
    std::function<void(int peer)> heard;  // an announcement came from it
  };
  // Borrowed; `worker` is null once the node is disposed of.
  struct Parts {
    const std::unique_ptr<UcxWorker>& worker;
    UcxWiring& wiring;
    UcxSender& sender;
    Refusals& refusals;
  };
  UcxReceiver(const Parts& parts, Callbacks callbacks)
      : parts_(parts), callbacks_(std::move(callbacks)) {}

  Status Start();  // takes messages from here on
  void Join(Inbox* inbox) { inbox_ = inbox; }
  void DeliverQueued();  // outside of progress
  void Close();          // drops queued and later messages; notes are still handled

  // How long the loop may sleep while long messages stream and nothing else is awaited.
  Duration Nap();

 private:
  static ucs_status_t OnMessage(void* receiver, const void* header, size_t header_length,
                                void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnAnnouncement(void* receiver, const void* header, size_t header_length,
                                     void* data, size_t length, const ucp_am_recv_param_t* param);

  ucs_status_t Take(const Frame& frame, void* data, size_t length, bool rendezvous);
  void TakeAnnouncement(const Frame& frame, UcxLink& link, const Announcement& announcement);
  bool IsStreaming() const;

  const Parts parts_;
  const Callbacks callbacks_;
  Inbox* inbox_ = nullptr;  // from Join on
  // Payloads that must be fetched wait here for the end of progress; everything waits before Join.
  std::deque<std::pair<Frame, std::unique_ptr<IncomingPayload>>> queued_;
  PollPacer pacer_;
  bool closed_ = false;
};

}  // namespace ringwood
