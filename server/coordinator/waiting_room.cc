#include "server/coordinator/waiting_room.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace ringwood {
namespace {

std::string LabelOf(const v1::JoinRequest& request) {
  return MemberLabel(request.role(), request.rank(), request.host());
}

// "0, 2, 5-63", of at most kMostRuns parts: "0, 2, …".
std::string Runs(const std::vector<uint32_t>& numbers) {
  constexpr size_t kMostRuns = 16, kLeastRun = 4;
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i < kLeastRun) end = i + 1;
    parts.push_back(std::to_string(numbers[i]));
    if (end - i > 1) parts.back() += "-" + std::to_string(numbers[end - 1]);
    i = end;
    if (parts.size() == kMostRuns && i < numbers.size()) {
      parts.push_back("…");
      break;
    }
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

Status WaitingRoom::Admit(const v1::JoinRequest& request) const {
  const std::string who = LabelOf(request);
  if (request.protocol_version() != v1::PROTOCOL_VERSION_CURRENT) {
    return Refused(absl::StrFormat(
        "%s speaks protocol version %d, this server speaks %d: install the same Ringwood on both",
        who, request.protocol_version(), static_cast<int>(v1::PROTOCOL_VERSION_CURRENT)));
  }
  if (request.incarnation() == 0) return Invalid(who + " joined without an incarnation number");
  switch (request.role()) {
    case v1::ROLE_WORKER:
      return AdmitWorker(request);
    case v1::ROLE_REDUCER:
      if (request.rank() < static_cast<uint32_t>(servers_)) return OkStatus();
      return Invalid(absl::StrFormat(
          "%s: this job has %d servers, numbered from 0: start the coordinator with --servers %d "
          "or give another index",
          who, servers_, request.rank() + 1));
    default:
      return Invalid("a process joined with neither the role of a worker nor of a reducer");
  }
}

Status WaitingRoom::AdmitWorker(const v1::JoinRequest& request) const {
  const std::string who = LabelOf(request);
  if (request.world() == 0 || request.world() > kMaxWorld) {
    return Invalid(absl::StrFormat("%s expects a world of %d workers; 1 to %d are possible", who,
                                   request.world(), kMaxWorld));
  }
  if (request.rank() >= request.world()) {
    return Invalid(absl::StrFormat("%s: its rank is not in its world of %d (ranks 0 to %d)", who,
                                   request.world(), request.world() - 1));
  }
  if (request.servers() != 0 && request.servers() != static_cast<uint32_t>(servers_)) {
    return Invalid(absl::StrFormat(
        "%s expects %d servers, the coordinator counts %d: give both the same --servers", who,
        request.servers(), servers_));
  }
  for (const auto& [seat, other] : seats_) {
    if (seat.first != v1::ROLE_WORKER || seat.second == request.rank()) continue;
    if (other.request.world() != request.world()) {
      return Invalid(absl::StrFormat(
          "world size mismatch: %s expects %d workers, %s expects %d: start all with the same -np",
          who, request.world(), LabelOf(other.request), other.request.world()));
    }
    if (other.request.resume() != request.resume()) {
      return Invalid(absl::StrFormat("%s %s, %s %s: start all ranks with --resume or none", who,
                                     request.resume() ? "asks to resume" : "starts afresh",
                                     LabelOf(other.request),
                                     other.request.resume() ? "asks to resume" : "starts afresh"));
    }
    if (other.request.job() != request.job() || other.request.or_start() != request.or_start()) {
      return Invalid(absl::StrFormat(
          "%s is of job %016x, %s of job %016x (0: not named), or only one may start afresh: start "
          "all ranks with the same RINGWOOD_JOB and RINGWOOD_RESUME",
          who, request.job(), LabelOf(other.request), other.request.job()));
    }
  }
  return OkStatus();
}

std::optional<Waiting> WaitingRoom::Add(Waiting waiting) {
  const Seat seat{waiting.request.role(), waiting.request.rank()};
  std::optional<Waiting> displaced = Remove(seat);
  seats_[seat] = std::move(waiting);
  return displaced;
}

std::optional<Waiting> WaitingRoom::Remove(CallId call) {
  for (const auto& [seat, waiting] : seats_) {
    if (waiting.call == call) return Remove(Seat(seat));
  }
  return std::nullopt;
}

std::optional<Waiting> WaitingRoom::Remove(const Seat& seat) {
  auto node = seats_.extract(seat);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

const Waiting* WaitingRoom::Find(const Seat& seat) const {
  auto found = seats_.find(seat);
  return found == seats_.end() ? nullptr : &found->second;
}

double WaitingRoom::PatienceOf(const Waiting& waiting, double seconds) {
  const double own = waiting.request.join_timeout_seconds();
  return own > 0 ? std::min(own, seconds) : seconds;
}

std::vector<Waiting> WaitingRoom::TakeOverdue(TimePoint now, double seconds) {
  std::vector<Seat> overdue;
  for (const auto& [seat, waiting] : seats_) {
    const Duration limit = Seconds(PatienceOf(waiting, seconds));
    if (seat.first == v1::ROLE_WORKER && now - waiting.since > limit) overdue.push_back(seat);
  }
  std::vector<Waiting> taken;
  for (const Seat& seat : overdue) taken.push_back(*Remove(seat));
  return taken;
}

const Waiting* WaitingRoom::AnyWorker() const {
  for (const auto& [seat, waiting] : seats_) {
    if (seat.first == v1::ROLE_WORKER) return &waiting;
  }
  return nullptr;
}

std::vector<uint32_t> WaitingRoom::MissingOf(v1::Role role, uint32_t count) const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < count; ++rank) {
    if (!seats_.contains({role, rank})) missing.push_back(rank);
  }
  return missing;
}

bool WaitingRoom::Complete() const { return AnyWorker() != nullptr && Missing().empty(); }

std::string WaitingRoom::Missing() const {
  const Waiting* worker = AnyWorker();
  if (worker == nullptr) return "";
  const auto ranks = MissingOf(v1::ROLE_WORKER, worker->request.world());
  const auto servers = MissingOf(v1::ROLE_REDUCER, servers_);
  std::vector<std::string> parts;
  if (!ranks.empty()) parts.push_back((ranks.size() == 1 ? "rank " : "ranks ") + Runs(ranks));
  if (!servers.empty()) {
    parts.push_back((servers.size() == 1 ? "server " : "servers ") + Runs(servers));
  }
  return absl::StrJoin(parts, " and ");
}

std::string WaitingRoom::Progress() const {
  const Waiting* worker = AnyWorker();
  if (worker == nullptr) return "no rank has joined";
  const uint32_t world = worker->request.world();
  const size_t missing = MissingOf(v1::ROLE_WORKER, world).size();
  const std::string names = Missing();
  return absl::StrFormat("%d of %d ranks joined%s", world - missing, world,
                         names.empty() ? "" : ", waiting for " + names);
}

std::optional<uint32_t> WaitingRoom::FirstWorker() const {
  const Waiting* worker = AnyWorker();
  if (worker == nullptr) return std::nullopt;
  return worker->request.rank();
}

std::vector<Waiting> WaitingRoom::TakeAll() {
  std::vector<Waiting> all;
  for (auto& [seat, waiting] : seats_) all.push_back(std::move(waiting));
  seats_.clear();
  return all;
}

}  // namespace ringwood
