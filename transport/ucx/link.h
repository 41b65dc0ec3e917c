// One peer of the epoch as a UCX node knows it, and what travels between two nodes.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>

#include "transport/ucx/listener.h"

namespace ringwood {

// Ids of the active messages that every node handles.
constexpr unsigned kMessageId = 1;       // frame and payload
constexpr unsigned kAnnouncementId = 2;  // frame and Announcement (neighbour.h)

// Notes: what nodes tell each other, as messages on lanes of their own.
enum class Note : uint8_t {
  kFarewell = 251,  // why the sender closes: the frame's type is the code, the payload the text
  kAsk = 252,       // slot 0 asks for a sign of life, slot 1 is one
  kReceipt = 253,   // an announced payload was read; the frame's count is its ticket
  kHello = 254,     // slot 1: the sender of this note can read our memory
  kGoodbye = 255,   // slot 0 says goodbye, slot 1 answers it
};

// UCX keeps pointers to it, so it must not move while the worker exists.
struct UcxLink {
  class UcxWiring* wiring = nullptr;
  int peer = 0;
  UcxAddress address;
  ucp_ep_h endpoint = nullptr;  // null: not connected yet, or closed
  bool connected = false;       // the peer's connection was accepted
  bool heard = false;           // of the peer: the connection stands at both ends
  bool parted = false;          // it has answered our goodbye, or is gone
  bool readable = false;        // its memory, by this process
  bool reads_us = false;        // it said so
};

}  // namespace ringwood
