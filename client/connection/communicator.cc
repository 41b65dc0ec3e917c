#include "client/connection/communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "base/out_of_memory.h"
#include "client/connection/collectives.h"
#include "client/connection/epoch_link.h"
#include "client/exchange/exchange.h"
#include "dense/all_reduce.h"
#include "dense/cut.h"
#include "dense/pairwise/all_to_all.h"
#include "dense/shares.h"

namespace ringwood {
namespace {

uint64_t ElementsOf(const CollectiveCall& call) {
  const bool in = call.verb == CollectiveVerb::kReduceScatter ||
                  call.verb == CollectiveVerb::kAllToAll || call.verb == CollectiveVerb::kReduce;
  return (in ? call.input.size() : call.output.size()) / std::max<size_t>(1, SizeOf(call.type));
}

Range ShareOf(const CollectiveCall& call, uint64_t elements, int rank, int world) {
  if (call.shares.empty()) return EvenPart(elements, world, rank);
  return CutBy(call.shares)[rank];
}

// Nobody's progress holds its sender back.
bool RunsAhead(CollectiveVerb verb) {
  return verb == CollectiveVerb::kBroadcast || verb == CollectiveVerb::kReduce;
}

// What tells the call from others. Lengths and types are in each message.
uint64_t AboutOf(const CollectiveCall& call) {
  const uint64_t parts[] = {static_cast<uint64_t>(call.verb), static_cast<uint64_t>(call.op),
                            static_cast<uint64_t>(call.root), call.about};
  return Digest(std::as_bytes(std::span(parts)));
}

bool Overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<> before;  // of pointers into any memory
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

// The same memory, or a rank's share at its place in the whole.
bool IsInPlace(const CollectiveCall& call, int rank, int world) {
  const std::byte *in = call.input.data(), *out = call.output.data();
  const auto mine = [&] {
    return ShareOf(call, ElementsOf(call), rank, world).begin * SizeOf(call.type);
  };
  if (call.verb == CollectiveVerb::kReduceScatter) return out == in + mine();
  if (call.verb == CollectiveVerb::kAllGather) return in == out + mine();
  return in == out && (call.verb != CollectiveVerb::kAllToAll || world == 1);
}

Status Differ(const CollectiveCall& call, const char* what) {
  return Invalid(absl::StrFormat("%s: %s (input of %d bytes, output of %d)", ToString(call), what,
                                 call.input.size(), call.output.size()));
}

Status CheckLengths(const CollectiveCall& call, int rank, int world) {
  const size_t size = SizeOf(call.type);
  if (call.input.size() % size != 0 || call.output.size() % size != 0) {
    return Differ(call, "no whole number of elements");
  }
  if (call.op == ReduceOp::kAverage) RW_RETURN_IF_ERROR(Divide({}, call.type, 1));
  if (call.root < 0 || call.root >= world) {
    return Invalid(absl::StrFormat("%s: there is no root %d among %d ranks", ToString(call),
                                   call.root, world));
  }
  const bool to_all = call.verb == CollectiveVerb::kAllToAll;
  if ((!call.shares.empty() || to_all) && !AreLengths(call.shares, ElementsOf(call), world)) {
    return Differ(call, "the shares are not one for each rank, all elements together");
  }
  const auto bytes = [&](int of) {
    return ShareOf(call, ElementsOf(call), of, world).count * size;
  };
  switch (call.verb) {
    case CollectiveVerb::kAllReduce:
      if (call.input.size() == call.output.size()) return OkStatus();
      return Differ(call, "input and output differ in length");
    case CollectiveVerb::kReduce:
      if (rank != call.root || call.input.size() == call.output.size()) return OkStatus();
      return Differ(call, "input and output differ in length");
    case CollectiveVerb::kReduceScatter:
      if (call.output.size() == bytes(rank)) return OkStatus();
      return Differ(call, "the output is not as long as this rank's share");
    case CollectiveVerb::kAllGather:
      if (call.input.size() == bytes(rank)) return OkStatus();
      return Differ(call, "the input is not as long as this rank's share");
    case CollectiveVerb::kAllToAll:
      if (AreLengths(call.receives, call.output.size() / size, world) &&
          call.receives[rank] == call.shares[rank]) {
        return OkStatus();
      }
      return Differ(call, "what is received is not the whole output, one part from each rank");
    case CollectiveVerb::kBroadcast:
      return OkStatus();
  }
  return Invalid(absl::StrFormat("there is no collective %d", static_cast<int>(call.verb)));
}

}  // namespace

const char* NameOf(CollectiveVerb verb) {
  constexpr const char* kNames[] = {
      "", "all-reduce", "reduce", "broadcast", "reduce-scatter", "all-gather", "all-to-all"};
  return kNames[static_cast<size_t>(verb)];
}

std::string ToString(const CollectiveCall& call) {
  const std::string op = call.op == ReduceOp::kSum ? "" : absl::StrFormat(" (%s)", NameOf(call.op));
  return absl::StrFormat("%s%s of %d %s", NameOf(call.verb), op, ElementsOf(call),
                         NameOf(call.type));
}

Status Check(const CollectiveCall& call, int rank, int world) {
  RW_RETURN_IF_ERROR(CheckLengths(call, rank, world));
  const bool reads = call.verb != CollectiveVerb::kBroadcast;
  if (!reads || !Overlap(call.input, call.output) || IsInPlace(call, rank, world)) {
    return OkStatus();
  }
  return Differ(call, "the output overlaps the input, and is not in its place: give it apart");
}

StatusOr<Place> PlaceIn(const Place& whole, const std::vector<int>& ranks) {
  Place place;
  place.world = static_cast<int>(ranks.size());
  place.members = ranks;
  place.rank = -1;
  std::vector<int> host_of(whole.world);
  for (size_t host = 0; host < whole.hosts.size(); ++host) {
    for (const int rank : whole.hosts[host]) host_of[rank] = static_cast<int>(host);
  }
  std::vector<std::string> hosts;
  std::set<int> seen;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= whole.world || !seen.insert(rank).second) {
      return Invalid(absl::StrFormat("a communicator of ranks %s in a world of %d: rank %d is %s",
                                     absl::StrJoin(ranks, ", "), whole.world, rank,
                                     seen.count(rank) != 0 ? "there twice" : "none of it"));
    }
    if (rank == whole.rank) place.rank = static_cast<int>(hosts.size());
    hosts.push_back(std::to_string(host_of[rank]));
  }
  if (place.rank < 0) {
    return Invalid(
        absl::StrFormat("rank %d is none of the communicator's ranks %s: only members make it",
                        whole.rank, absl::StrJoin(ranks, ", ")));
  }
  if (!whole.hosts.empty()) place.hosts = GroupByHost(hosts);
  return place;
}

void Communicator::Work::Prepare(const Communicator& of) {
  const size_t size = SizeOf(call_.type);
  switch (call_.verb) {
    case CollectiveVerb::kReduceScatter:  // partial results do not go into the caller's input
      scratch_ = Buffer<std::byte>(call_.input.size());
      std::ranges::copy(call_.input, scratch_.data());
      exchanged_ = scratch_.span();
      return;
    case CollectiveVerb::kReduce:
      if (of.rank() != call_.root) scratch_ = Buffer<std::byte>(call_.input.size());
      exchanged_ = of.rank() == call_.root ? call_.output : scratch_.span();
      return;
    case CollectiveVerb::kAllGather: {
      const Range mine = ShareOf(call_, ElementsOf(call_), of.rank(), of.world());
      std::byte* const place = call_.output.data() + mine.begin * size;
      if (!call_.input.empty()) std::memmove(place, call_.input.data(), call_.input.size());
      exchanged_ = call_.output;
      return;
    }
    default:
      exchanged_ = call_.output;
  }
}

void Communicator::Work::Finish(const Communicator& of) {
  if (call_.verb == CollectiveVerb::kReduceScatter) {
    const Range mine = ShareOf(call_, ElementsOf(call_), of.rank(), of.world());
    const size_t size = SizeOf(call_.type);
    std::ranges::copy(exchanged_.subspan(mine.begin * size, mine.count * size),
                      call_.output.data());
  }
  if (call_.op == ReduceOp::kAverage) (void)Divide(call_.output, call_.type, of.world());
  scratch_ = {};
}

StatusOr<std::shared_ptr<Communicator::Work>> Communicator::Start(const CollectiveCall& call) {
  RW_RETURN_IF_ERROR(link_->status());
  RW_RETURN_IF_ERROR(Check(call, rank(), world()));
  if (open_.fetch_add(1) >= kMostCalls) {
    --open_;
    return Exhausted(
        absl::StrFormat("%s: %d calls of the communicator have not ended; wait for some",
                        ToString(call), kMostCalls));
  }
  const auto work = std::make_shared<Work>(call);
  Status status = CatchOutOfMemory([&]() -> Status {
    work->Prepare(*this);
    return OkStatus();
  });
  if (status.ok() && !link_->connection()->net()->Post([self = shared_from_this(), work] {
        work->about_ = self->about_ = Combine(self->about_, AboutOf(work->call_));
        for (Part& part : self->PartsOf(work)) self->queue_.push_back(std::move(part));
        self->Advance();
      })) {
    status = Internal("network queue full");
  }
  if (!status.ok()) {
    --open_;
    return status;
  }
  return work;
}

std::vector<Communicator::Part> Communicator::PartsOf(const std::shared_ptr<Work>& work) const {
  const size_t whole = work->exchanged_.size();
  const size_t bytes = RunsAhead(work->call_.verb) ? kPartBytes : std::max<size_t>(1, whole);
  std::vector<Part> parts;
  for (size_t begin = 0; begin < whole; begin += bytes) {
    parts.push_back({work, begin, std::min(bytes, whole - begin)});
  }
  if (parts.empty()) parts.push_back({work, 0, 0});
  work->parts_ = static_cast<int>(parts.size());
  return parts;
}

void Communicator::Advance() {
  if (std::exchange(advancing_, true)) return;  // the call below this one goes on
  while (!queue_.empty() && !fencing_) {
    if (failed_.ok()) failed_ = link_->status();
    if (!failed_.ok()) {
      FailAll(failed_);
      break;
    }
    const Part& next = queue_.front();
    const bool ahead = RunsAhead(next.work->call_.verb);
    const bool fence = ahead && ahead_.TooFar(next.bytes);
    if (running_ != 0 &&
        (fence || running_ == kCallsAtOnce || running_bytes_ + next.bytes > kBytesAtOnce)) {
      break;
    }
    if (fence) {
      Fence();
      continue;
    }
    if (ahead) ahead_.Sent(next.bytes);
    Part part = std::move(queue_.front());
    queue_.pop_front();
    Begin(std::move(part));
  }
  advancing_ = false;
}

void Communicator::Begin(Part part) {
  const CollectiveCall& call = part.work->call_;
  const MessageName name{Lane::kImmediate, ++calls_, number_};
  const auto awaited = std::make_shared<AwaitingTransport>(link_->transport());
  part.work->awaited_.push_back(awaited);
  ++running_;
  running_bytes_ += part.bytes;
  const std::span<std::byte> data = part.work->exchanged_.subspan(part.begin, part.bytes);
  const Asked asked{.whole = part.work->exchanged_.size() / SizeOf(call.type),
                    .about = part.work->about_};
  const Done done = [self = shared_from_this(), work = part.work, awaited,
                     bytes = part.bytes](Status status) { self->End(work, bytes, status); };
  switch (call.verb) {
    case CollectiveVerb::kAllReduce: {
      AllReduceRequest request{};
      request.place = place_;
      request.name = name;
      request.type = call.type;
      request.op = call.op;
      request.input = call.input;
      request.output = data;
      request.asked = asked;
      return StartAllReduce(awaited.get(), request,
                            [done](StatusOr<AllReduceResult> result) { done(result.status()); });
    }
    case CollectiveVerb::kReduce:
      return StartReduce(awaited.get(),
                         {place_, call.root, name, call.type, call.op,
                          call.input.subspan(part.begin, part.bytes), data, asked},
                         done);
    case CollectiveVerb::kBroadcast:
      return StartBroadcast(awaited.get(), {place_, call.root, name, call.type, data, asked}, done);
    case CollectiveVerb::kReduceScatter:
      return StartReduceScatter(
          awaited.get(), {place_, name, call.type, call.op, data, 0, call.shares, asked}, done);
    case CollectiveVerb::kAllGather:
      return StartAllGather(awaited.get(),
                            {place_, name, call.type, ReduceOp::kSum, data, 0, call.shares, asked},
                            done);
    case CollectiveVerb::kAllToAll:
      return StartAllToAll(
          awaited.get(),
          {place_, name, call.type, call.shares, call.receives, call.input, data, asked.about},
          done);
  }
}

// All members are here: everything before has arrived at them.
void Communicator::Fence() {
  fencing_ = true;
  ahead_.Met();
  AllReduceRequest request{};
  request.place = place_;
  request.name = {Lane::kImmediate, ++calls_, number_};
  request.type = DataType::kUInt8;
  request.input = request.output = std::as_writable_bytes(std::span(&fence_, 1));
  const auto awaited = std::make_shared<AwaitingTransport>(link_->transport());
  queue_.front().work->awaited_.push_back(awaited);
  StartAllReduce(awaited.get(), request,
                 [self = shared_from_this(), awaited](StatusOr<AllReduceResult> result) {
                   self->fencing_ = false;
                   if (!result.ok() && self->failed_.ok()) self->failed_ = result.status();
                   self->Advance();
                 });
}

void Communicator::End(const std::shared_ptr<Work>& work, uint64_t bytes, const Status& status) {
  --running_;
  running_bytes_ -= bytes;
  if (!status.ok() && failed_.ok()) failed_ = status;
  if (--work->parts_ == 0 || !status.ok()) {
    if (status.ok()) work->awaited_.clear();
    absl::MutexLock lock(&work->mutex_);
    if (!work->done_) --open_;
    if (work->status_.ok()) work->status_ = status;
    work->done_ = true;
    if (status.ok()) link_->connection()->progress()->GroupCallEnded();
  }
  Advance();
}

// What has not begun will not begin.
void Communicator::FailAll(const Status& status) {
  for (const Part& part : std::exchange(queue_, {})) {
    absl::MutexLock lock(&part.work->mutex_);
    if (!part.work->done_) --open_;
    if (part.work->status_.ok()) part.work->status_ = status;
    part.work->done_ = true;
  }
}

std::optional<Status> Communicator::Outcome(Work* work) const {
  {
    absl::MutexLock lock(&work->mutex_);
    if (!work->told_.ok()) return work->told_;
  }
  return EndedWithin(work, Duration::zero());
}

Status Communicator::Wait(Work* work, Duration timeout) {
  {
    absl::MutexLock lock(&work->mutex_);
    if (!work->told_.ok()) return work->told_;
  }
  std::optional<Status> ended = EndedWithin(work, timeout);
  if (!ended) {
    const std::set<int> peers = AwaitedPeers(work);
    ended = EndedWithin(work, Duration::zero());  // the loop that was asked may have ended it
    if (!ended && peers.empty() && !link_->status().ok()) ended = link_->status();
    if (!ended) {
      ended = TimedOut(absl::StrFormat("it has not ended within %.1f s%s", ToSeconds(timeout),
                                       AwaitedText(peers)));
    }
  }
  return ended->ok() ? OkStatus() : Broken(work, *ended);
}

// Nothing: it has not.
std::optional<Status> Communicator::EndedWithin(Work* work, Duration timeout) const {
  absl::MutexLock lock(&work->mutex_);
  if (!work->mutex_.AwaitWithTimeout(absl::Condition(&work->done_), absl::FromChrono(timeout))) {
    return std::nullopt;
  }
  if (work->status_.ok() && !std::exchange(work->finished_, true)) work->Finish(*this);
  return work->status_;
}

// The data of the work is not touched any more when this returns.
Status Communicator::Broken(Work* work, const Status& status) {
  const std::string what = absl::StrFormat("rank %d: %s", link_->slot(), ToString(work->call_));
  const Status named = Annotate(link_->Named(status), what);
  link_->Fail(named);
  link_->connection()->Drain();
  absl::MutexLock lock(&work->mutex_);
  if (work->told_.ok()) work->told_ = named;
  return work->told_;
}

// Nodes that the parts under way await, or that have not taken what these send.
std::set<int> Communicator::AwaitedPeers(Work* work) {
  // What the task touches is its own: it may run after the call has timed out.
  const auto nodes = std::make_shared<std::set<int>>();
  const Status asked = link_->connection()->net()->Call(
      [nodes, work = work->shared_from_this()] {
        for (const auto& awaited : work->awaited_) nodes->merge(awaited->peers());
        return OkStatus();
      },
      Seconds(kLongestWaitSeconds));
  return asked.ok() ? *nodes : std::set<int>();
}

// "; still awaited: rank 2 …".
std::string Communicator::AwaitedText(const std::set<int>& nodes) const {
  if (nodes.empty()) return "; an earlier call of the communicator has not ended";
  std::vector<int> ranks;
  for (const int node : nodes) ranks.push_back(link_->SlotOf(node));
  return absl::StrFormat(
      "; still awaited: rank %s, or whom it waits for itself: do all ranks make the same calls in "
      "the same order?",
      absl::StrJoin(ranks, ", rank "));
}

}  // namespace ringwood
