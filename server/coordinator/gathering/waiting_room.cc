#include "server/coordinator/gathering/waiting_room.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"

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

// "rank 3", "ranks 0, 2".
void AddNamed(const std::string& name, const std::vector<uint32_t>& numbers,
              std::vector<std::string>* parts) {
  if (numbers.empty()) return;
  parts->push_back(name + (numbers.size() == 1 ? " " : "s ") + Runs(numbers));
}

}  // namespace

bool HasPart(const v1::JoinRequest& request) {
  return request.role() == v1::ROLE_WORKER && request.has_held();
}

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
      return AdmitReducer(request);
    default:
      return Invalid("a process joined with neither the role of a worker nor of a reducer");
  }
}

// The rank that brings one may join later.
Status WaitingRoom::AdmitReducer(const v1::JoinRequest& request) const {
  const uint32_t index = request.rank();
  if (index < static_cast<uint32_t>(options_.servers)) return OkStatus();
  if (index >= kFirstOfRanks && index - kFirstOfRanks < kMaxWorld) return OkStatus();
  return Invalid(absl::StrFormat(
      "%s: this job has %s, numbered from 0: start the coordinator with --servers %d "
      "or give another index",
      LabelOf(request), FormatCount(options_.servers, "server"), index + 1));
}

Status WaitingRoom::AdmitWorker(const v1::JoinRequest& request) const {
  const std::string who = LabelOf(request);
  if (request.world() == 0 || request.world() > kMaxWorld) {
    return Invalid(absl::StrFormat("%s expects a world of %d workers; 1 to %d are possible", who,
                                   request.world(), kMaxWorld));
  }
  // A process beyond an elastic job's size waits for a place.
  const uint32_t ranks = options_.elastic ? kMaxWorld : request.world();
  if (request.rank() >= ranks) {
    return Invalid(absl::StrFormat("%s: its rank is not in its world of %d (ranks 0 to %d)", who,
                                   request.world(), ranks - 1));
  }
  if (request.servers() != 0 && request.servers() != static_cast<uint32_t>(options_.servers)) {
    return Invalid(absl::StrFormat(
        "%s expects %d servers, the coordinator counts %d: give both the same --servers", who,
        request.servers(), options_.servers));
  }
  if (options_.elastic) return OkStatus();
  for (const auto& [seat, other] : seats_) {
    if (seat.first != v1::ROLE_WORKER || seat.second == request.rank()) continue;
    RW_RETURN_IF_ERROR(AdmitBeside(request, other.request));
  }
  return OkStatus();
}

// A fixed world is started as one.
Status WaitingRoom::AdmitBeside(const v1::JoinRequest& request,
                                const v1::JoinRequest& other) const {
  const std::string who = LabelOf(request);
  if (other.world() != request.world()) {
    return Invalid(absl::StrFormat(
        "world size mismatch: %s expects %d workers, %s expects %d: start all with the same -np",
        who, request.world(), LabelOf(other), other.world()));
  }
  if (other.resume() != request.resume()) {
    return Invalid(absl::StrFormat("%s %s, %s %s: start all ranks with --resume or none", who,
                                   request.resume() ? "asks to resume" : "starts afresh",
                                   LabelOf(other),
                                   other.resume() ? "asks to resume" : "starts afresh"));
  }
  if (other.job() != request.job() || other.or_start() != request.or_start()) {
    return Invalid(absl::StrFormat(
        "%s is of job %016x, %s of job %016x (0: not named), or only one may start afresh: start "
        "all ranks with the same RINGWOOD_JOB and RINGWOOD_RESUME",
        who, request.job(), LabelOf(other), other.job()));
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

bool WaitingRoom::Overdue(const Waiting& waiting, TimePoint now, double seconds) const {
  return waiting.request.role() == v1::ROLE_WORKER &&
         now - waiting.since > Seconds(PatienceOf(waiting, seconds));
}

std::vector<Waiting> WaitingRoom::TakeOverdue(TimePoint now, double seconds) {
  std::vector<Seat> overdue;
  for (const auto& [seat, waiting] : seats_) {
    if (Overdue(waiting, now, seconds)) overdue.push_back(seat);
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

std::vector<uint32_t> WaitingRoom::MissingOf(v1::Role role,
                                             const std::vector<Awaited>& awaited) const {
  std::vector<uint32_t> missing;
  for (const Awaited& member : awaited) {
    if (member.seat.first != role) continue;
    const Waiting* waiting = Find(member.seat);
    if (waiting == nullptr || waiting->request.incarnation() != member.incarnation) {
      missing.push_back(member.seat.second);
    }
  }
  return missing;
}

std::vector<uint32_t> WaitingRoom::MissingReducers() const {
  std::vector<uint32_t> missing =
      MissingOf(v1::ROLE_REDUCER, static_cast<uint32_t>(options_.servers));
  for (const auto& [seat, waiting] : seats_) {
    const uint32_t index = kFirstOfRanks + seat.second;
    if (seat.first == v1::ROLE_WORKER && waiting.request.brings_reducer() &&
        !seats_.contains({v1::ROLE_REDUCER, index})) {
      missing.push_back(index);
    }
  }
  return missing;
}

uint32_t WaitingRoom::Workers(TimePoint now) const {
  return static_cast<uint32_t>(std::count_if(seats_.begin(), seats_.end(), [&](const auto& entry) {
    return entry.first.first == v1::ROLE_WORKER && entry.second.apart_until <= now;
  }));
}

uint32_t WaitingRoom::MostWorkers() const {
  if (options_.max_world > 0) return static_cast<uint32_t>(options_.max_world);
  uint32_t most = 1;
  for (const auto& [seat, waiting] : seats_) most = std::max(most, waiting.request.world());
  return most;
}

// Somebody has, or may have, a part of the job that was. Servers have none.
bool WaitingRoom::Continues(const std::vector<Awaited>& awaited) const {
  if (!options_.elastic) return false;
  return std::any_of(awaited.begin(), awaited.end(),
                     [](const Awaited& a) { return a.seat.first == v1::ROLE_WORKER; }) ||
         std::any_of(seats_.begin(), seats_.end(),
                     [](const auto& entry) { return HasPart(entry.second.request); });
}

// Who does not resume begins another job.
bool WaitingRoom::ResumesWithAny() const {
  return failed_ && std::any_of(seats_.begin(), seats_.end(),
                                [](const auto& entry) { return entry.second.request.resume(); });
}

bool WaitingRoom::AnyOverdue(TimePoint now) const {
  return std::any_of(seats_.begin(), seats_.end(), [&](const auto& entry) {
    return Overdue(entry.second, now, options_.join_timeout_seconds);
  });
}

std::string WaitingRoom::MissingWorkers(bool continues, TimePoint now) const {
  const uint32_t min = static_cast<uint32_t>(options_.min_world);
  const uint32_t all = AnyWorker()->request.world();
  const bool least = continues || AnyOverdue(now) || all < min;
  const uint32_t needed = least ? min : all;
  if (Workers(now) >= needed) return "";
  const auto missing = static_cast<int>(needed - Workers(now));
  return absl::StrFormat("%s (%s %d)", FormatCount(missing, "more worker"),
                         least ? "--min-np" : "-np", needed);
}

bool WaitingRoom::Complete(const std::vector<Awaited>& awaited, TimePoint now) const {
  return AnyWorker() != nullptr && Missing(awaited, now).empty();
}

std::string WaitingRoom::Missing(const std::vector<Awaited>& awaited, TimePoint now) const {
  const Waiting* worker = AnyWorker();
  if (worker == nullptr) return "";
  const bool continues = Continues(awaited);
  const bool any = continues || ResumesWithAny();
  const auto ranks = any ? MissingOf(v1::ROLE_WORKER, awaited)
                         : MissingOf(v1::ROLE_WORKER, worker->request.world());
  const bool any_servers = continues || (any && AnyOverdue(now));
  auto servers = any_servers ? MissingOf(v1::ROLE_REDUCER, awaited) : MissingReducers();
  std::vector<uint32_t> bringers;
  const auto of_ranks = std::lower_bound(servers.begin(), servers.end(), kFirstOfRanks);
  for (auto of_rank = of_ranks; of_rank != servers.end(); ++of_rank) {
    bringers.push_back(*of_rank - kFirstOfRanks);
  }
  servers.erase(of_ranks, servers.end());
  std::vector<std::string> parts;
  AddNamed("rank", ranks, &parts);
  AddNamed("server", servers, &parts);
  AddNamed("the reducer of rank", bringers, &parts);
  const std::string more = any && ranks.empty() ? MissingWorkers(continues, now) : "";
  if (!more.empty()) parts.push_back(more);
  return absl::StrJoin(parts, " and ");
}

std::vector<uint32_t> WaitingRoom::MissingRanks() const {
  const Waiting* const worker = AnyWorker();
  return worker == nullptr ? std::vector<uint32_t>()
                           : MissingOf(v1::ROLE_WORKER, worker->request.world());
}

std::string WaitingRoom::Progress(const std::vector<Awaited>& awaited, TimePoint now) const {
  const Waiting* worker = AnyWorker();
  if (worker == nullptr) return "no rank has joined";
  const std::string names = Missing(awaited, now);
  const std::string rest = names.empty() ? "" : ", waiting for " + names;
  if (Continues(awaited) || ResumesWithAny()) {
    return absl::StrFormat("%d ranks joined again%s", Workers(now), rest);
  }
  const uint32_t world = worker->request.world();
  const size_t missing = MissingOf(v1::ROLE_WORKER, world).size();
  return absl::StrFormat("%d of %d ranks joined%s", world - missing, world, rest);
}

bool WaitingRoom::HasMoreThan(const Roster& members, TimePoint now) const {
  return std::any_of(seats_.begin(), seats_.end(), [&](const auto& entry) {
    const auto& [seat, waiting] = entry;
    if (members.Has(seat.first, seat.second) || waiting.apart_until > now) return false;
    const uint32_t most = options_.max_world > 0 ? static_cast<uint32_t>(options_.max_world)
                                                 : waiting.request.world();
    return seat.first == v1::ROLE_REDUCER || members.world() < most;
  });
}

std::optional<uint32_t> WaitingRoom::FirstWorker() const {
  const Waiting* worker = AnyWorker();
  if (worker == nullptr) return std::nullopt;
  return worker->request.rank();
}

std::vector<Waiting> WaitingRoom::TakeWorld(TimePoint now) {
  if (!options_.elastic) return TakeAll();
  uint32_t free = MostWorkers();
  std::set<Seat> chosen;
  for (const bool held : {true, false}) {
    for (const auto& [seat, waiting] : seats_) {
      if (waiting.apart_until > now) continue;
      if (seat.first == v1::ROLE_REDUCER) chosen.insert(seat);
      if (seat.first != v1::ROLE_WORKER || waiting.request.has_held() != held) continue;
      if (free == 0) continue;
      chosen.insert(seat);
      --free;
    }
  }
  std::vector<Waiting> taken;
  for (const Seat& seat : chosen) taken.push_back(*Remove(seat));
  return taken;
}

std::vector<Waiting> WaitingRoom::TakeAll() {
  std::vector<Waiting> all;
  for (auto& [seat, waiting] : seats_) all.push_back(std::move(waiting));
  seats_.clear();
  return all;
}

std::vector<Waiting*> WaitingRoom::Members() {
  std::vector<Waiting*> members;
  for (auto& [seat, waiting] : seats_) {
    if (waiting.request.has_held() || seat.first == v1::ROLE_REDUCER) members.push_back(&waiting);
  }
  return members;
}

void WaitingRoom::Restart(TimePoint now) {
  failed_ = true;
  for (auto& [seat, waiting] : seats_) waiting.since = now;
}

}  // namespace ringwood
