// Payloads between two processes of one host: the receiver reads them straight out of the sender's
// memory (process_vm_readv, Linux 3.2), one copy where TCP on loopback takes three. UCX's own
// transports for this (posix, sysv, cma) do not fit: they connect all processes of the machine,
// even those in namespaces that were launched as separate hosts, and UCX 1.13 does not use them on
// connections that report a peer's death (peer error handling). Here the connection stays as it is:
// TCP announces, acknowledges and notices deaths, so a process killed in the middle is found like
// any other.
//
//     reader ── hello ──► sender            once: "I can read your memory"
//     reader ◄── announcement ── sender     in place of a long payload
//     reader ── receipt ──► sender          the payload has been read: its memory is free
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "transport/inbox.h"

namespace ringwood {

// Travels in place of a long payload.
struct Announcement {
  uint64_t address = 0;  // of the payload, in the sender's memory
  uint64_t ticket = 0;   // for the receipt
};

// Shorter payloads travel with their message: an announcement and a receipt cost more than copying.
constexpr size_t kLeastAnnounced = 32 << 10;

// Unavailable: the process is gone, or the kernel does not let this one read it.
Status ReadMemory(int pid, uint64_t address, std::span<std::byte> into);

// Whether `pid` is the process that has `cookie` at `address`, and may be read.
bool HasCookie(int pid, uint64_t address, uint64_t cookie);

class NeighbourPayload : public IncomingPayload {
 public:
  // `settled` runs once, when the sender need not keep the payload any longer: read, or dropped.
  NeighbourPayload(int pid, const Announcement& announcement, std::function<void()> settled)
      : pid_(pid), announcement_(announcement), settled_(std::move(settled)) {}
  ~NeighbourPayload() override;
  uint64_t HeldBytes() const override { return 0; }
  bool IsSenders() const override { return true; }
  void Fetch(std::span<std::byte> into, std::function<void(Status)> done) override;

 private:
  const int pid_;
  const Announcement announcement_;
  std::function<void()> settled_;  // null once it has run
};

}  // namespace ringwood
