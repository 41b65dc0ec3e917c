// The processes that have joined and wait for the world to be complete. Pure: times come in as
// arguments.
//
// A world that begins is complete when all its ranks, all servers and the reducers that its ranks
// bring are there. One that continues an elastic job is complete when all that are awaited are
// there, and workers enough. Where nobody is left to continue it, it resumes with whichever ranks
// come, spares too: as many as it was started with and all servers, or fewer of both once somebody
// has waited for the join timeout.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/calls/limits.h"
#include "server/coordinator/event.h"
#include "server/coordinator/membership_options.h"
#include "server/coordinator/roster.h"

namespace ringwood {

// Whether it has a part of the job that was. A reducer has none, but says whom it did not hear.
bool HasPart(const v1::JoinRequest& request);

struct Waiting {
  CallId call = 0;
  v1::JoinRequest request;
  TimePoint since;
  uint64_t fresh_job = 0;
  TimePoint apart_until = {};  // the data plane does not reach it: no world takes it before
};

using Seat = std::pair<v1::Role, uint32_t>;  // (role, rank)

// A member of the epoch before, of an elastic job, that lives and has yet to join again or has.
struct Awaited {
  Seat seat;
  uint64_t incarnation = 0;
};

class WaitingRoom {
 public:
  explicit WaitingRoom(const MembershipOptions& options) : options_(options) {}

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

  // `awaited`: of an elastic job whose epoch failed; else empty.
  bool Complete(const std::vector<Awaited>& awaited, TimePoint now) const;
  // "ranks 1, 3, 5-63 and server 0"; "" when complete or while no worker has joined.
  std::string Missing(const std::vector<Awaited>& awaited, TimePoint now) const;
  // Ranks of the world that those here speak of; none while no worker has joined.
  std::vector<uint32_t> MissingRanks() const;
  // "2 of 4 ranks joined, waiting for ranks 1, 3"; "nobody has joined".
  std::string Progress(const std::vector<Awaited>& awaited, TimePoint now) const;
  std::optional<uint32_t> FirstWorker() const;  // the lowest rank that waits
  // A process waits that could take part in an elastic epoch beside `members`.
  bool HasMoreThan(const Roster& members, TimePoint now) const;

  // In node order: workers by rank, then servers. TakeWorld leaves the workers that an elastic
  // epoch has no room for: those that had part in the job come first.
  std::vector<Waiting> TakeWorld(TimePoint now);
  std::vector<Waiting> TakeAll();
  // Of an elastic job: workers for an epoch.
  bool HasEnough(TimePoint now) const {
    return Workers(now) >= static_cast<uint32_t>(options_.min_world);
  }
  // An elastic epoch has failed: all begin to wait now.
  void Restart(TimePoint now);
  void Begun() { failed_ = false; }  // the next one
  // Workers that were in an epoch of the job, and servers.
  std::vector<Waiting*> Members();

 private:
  Status AdmitReducer(const v1::JoinRequest& request) const;
  Status AdmitWorker(const v1::JoinRequest& request) const;
  Status AdmitBeside(const v1::JoinRequest& request, const v1::JoinRequest& other) const;
  const Waiting* AnyWorker() const;
  std::vector<uint32_t> MissingOf(v1::Role role, uint32_t count) const;
  std::vector<uint32_t> MissingOf(v1::Role role, const std::vector<Awaited>& awaited) const;
  std::vector<uint32_t> MissingReducers() const;              // of a world that begins, rising
  bool Continues(const std::vector<Awaited>& awaited) const;  // an elastic job
  bool ResumesWithAny() const;
  bool Overdue(const Waiting& waiting, TimePoint now, double seconds) const;
  bool AnyOverdue(TimePoint now) const;
  std::string MissingWorkers(bool continues, TimePoint now) const;
  uint32_t Workers(TimePoint now) const;  // that a world may take
  uint32_t MostWorkers() const;           // of an elastic epoch

  const MembershipOptions options_;
  std::map<Seat, Waiting> seats_;
  bool failed_ = false;  // the last epoch, of an elastic job
};

}  // namespace ringwood
