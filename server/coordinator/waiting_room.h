// The processes that have joined and wait for the world to be complete. Pure: times come in as
// arguments.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/calls/limits.h"
#include "server/coordinator/event.h"

namespace ringwood {

struct Waiting {
  CallId call = 0;
  v1::JoinRequest request;
  TimePoint since;
  uint64_t fresh_job = 0;
};

class WaitingRoom {
 public:
  using Seat = std::pair<v1::Role, uint32_t>;  // (role, rank)

  explicit WaitingRoom(int servers) : servers_(servers) {}

  // Checks whether this process can belong to the job that gathers here: another protocol version,
  // a rank out of range, another world size, another number of servers, resume against fresh start.
  // The error names both sides and how to fix it.
  Status Admit(const v1::JoinRequest& request) const;

  // Takes the seat. The newest process wins; the one before is returned, to be answered.
  std::optional<Waiting> Add(Waiting waiting);

  std::optional<Waiting> Remove(CallId call);
  std::optional<Waiting> Remove(const Seat& seat);
  const Waiting* Find(const Seat& seat) const;

  // Seconds that a worker waits: its own timeout, at most the server's `seconds`.
  static double PatienceOf(const Waiting& waiting, double seconds);
  // Removes and returns the workers that have waited for longer by `now`.
  std::vector<Waiting> TakeOverdue(TimePoint now, double seconds);

  bool Complete() const;
  // "ranks 1, 3, 5-63 and server 0"; "" when complete or while no worker has joined.
  std::string Missing() const;
  // "2 of 4 ranks joined, waiting for ranks 1, 3"; "nobody has joined".
  std::string Progress() const;
  std::optional<uint32_t> FirstWorker() const;  // the lowest rank that waits

  // In node order: workers by rank, then servers. The room is empty afterwards.
  std::vector<Waiting> TakeAll();
  bool empty() const { return seats_.empty(); }

 private:
  Status AdmitWorker(const v1::JoinRequest& request) const;
  const Waiting* AnyWorker() const;
  std::vector<uint32_t> MissingOf(v1::Role role, uint32_t count) const;

  int servers_;
  std::map<Seat, Waiting> seats_;
};

}  // namespace ringwood
