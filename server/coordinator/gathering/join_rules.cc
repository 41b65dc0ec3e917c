#include "server/coordinator/gathering/join_rules.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "server/coordinator/gathering/waiting_room.h"

namespace ringwood {
namespace {

constexpr uint64_t kMaxEpochsAhead = 1u << 20;

// A round has 40 bits in the data plane (plan/wire.h).
constexpr uint64_t kMaxRounds = 1ull << 40;

// Of what a stranger may send, and everyone else is told.
constexpr size_t kMaxHostBytes = 255;
constexpr size_t kMaxAddressBytes = 16 << 10;

Status CheckStore(const v1::JoinRequest& request, const MembershipOptions& options) {
  if (request.store_address().empty()) return OkStatus();
  if (request.role() != v1::ROLE_REDUCER || request.store_address().size() > kMaxHostBytes) {
    return Invalid("a rank has no store, and no store has such an address");
  }
  if (options.divides_checkpoints) return OkStatus();
  return Refused(absl::StrFormat(
      "%s has a --store, in which it would keep a part of the checkpoints, and %s: leave out its "
      "--store",
      LabelOfJoin(request), options.why_undivided));
}

// A server of this number runs in the coordinator's own process.
Status CheckSeat(const v1::JoinRequest& request, const MembershipOptions& options) {
  const OwnReducer& own = options.own_reducer;
  if (own.incarnation == 0 || request.role() != v1::ROLE_REDUCER || request.rank() != own.index ||
      request.incarnation() == own.incarnation) {
    return OkStatus();
  }
  return AlreadyExists(absl::StrFormat(
      "server %d is in the coordinator's own process, one on host %s cannot take its place: give "
      "another --reducer-index, and --servers %d to all",
      own.index, request.host(), std::max(options.servers, 2)));
}

// What a process says that it has of an elastic job; of a reducer only whom it did not hear.
Status CheckHeld(const v1::JoinRequest& request, const v1::EpochRecord& newest,
                 const MembershipOptions& options) {
  if (!request.has_held()) return OkStatus();
  const std::string who = LabelOfJoin(request);
  if (!options.elastic) {
    return Refused(who + " was part of an elastic job: start the server with --elastic");
  }
  if (request.held().epoch() == 0 || request.held().round() >= kMaxRounds) {
    return Invalid(who + " says that it has a part of a job, in no epoch or round of it");
  }
  if (!HasPart(request) || request.held().job() == newest.job()) return OkStatus();
  return Unavailable(
      absl::StrFormat("%s was part of job %016x, which this server does not have: "
                      "start it again from its checkpoint",
                      who, request.held().job()));
}

}  // namespace

std::string LabelOfJoin(const v1::JoinRequest& request) {
  return MemberLabel(request.role(), request.rank(), request.host());
}

Status CheckJoin(const v1::JoinRequest& request, const v1::EpochRecord& newest,
                 const MembershipOptions& options) {
  if (const std::string host = Printable(request.host(), kMaxHostBytes); host != request.host()) {
    return Invalid("the host name \"" + host +
                   "\" has control characters or more than 255 bytes: give another (--host, "
                   "RINGWOOD_HOST)");
  }
  if (request.fabric_address().size() > kMaxAddressBytes) {
    return Invalid(
        absl::StrFormat("a fabric address of %d bytes is none", request.fabric_address().size()));
  }
  RW_RETURN_IF_ERROR(CheckStore(request, options));
  RW_RETURN_IF_ERROR(CheckSeat(request, options));
  return CheckHeld(request, newest, options);
}

Status CheckEpochSeen(const v1::JoinRequest& request, uint64_t newest_epoch) {
  if (request.newest_epoch_seen() <= newest_epoch + kMaxEpochsAhead) return OkStatus();
  return Invalid(
      absl::StrFormat("%s has seen epoch %d, this server is at %d: it belongs to another job",
                      LabelOfJoin(request), request.newest_epoch_seen(), newest_epoch));
}

}  // namespace ringwood
