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
  // First on every connection: slot 1, its sender can read our memory; chunk 1, we called it.
  kHello = 254,
  kGoodbye = 255,  // slot 0 says goodbye, slot 1 answers it
};

// One connection of a pair.
struct UcxConnection {
  ucp_ep_h endpoint = nullptr;  // null: none yet, or closed
  bool heard = false;           // its hello came: the connection stands at both ends
};

//     absent ──► connecting ──► open ──► closed
//               endpoint       open     the inbox has a reason
//
// UCX keeps pointers to it, so it must not move while the worker exists.
struct UcxLink {
  class UcxWiring* wiring = nullptr;
  int peer = 0;
  UcxAddress address;
  bool neighbour = false;       // on this host
  UcxConnection called;         // we connected
  UcxConnection accepted;       // the peer did
  ucp_ep_h endpoint = nullptr;  // what is sent goes there: of the two, that which was there first
  bool open = false;            // that one stands at both ends
  bool came = false;            // the peer has connected
  uint16_t caller_port = 0;     // from there
  bool parted = false;          // it has answered our goodbye, or is gone
  bool readable = false;        // its memory, by this process
  bool reads_us = false;        // it said so
};

}  // namespace ringwood
