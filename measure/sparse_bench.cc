#include "measure/sparse_bench.h"

#include <algorithm>
#include <future>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/median.h"
#include "client/connection/epoch_link.h"
#include "client/connection/ring_probe.h"
#include "client/grpc/parts.h"
#include "measure/session_options.h"
#include "plan/sparse_groups.h"
#include "plan/wire.h"
#include "sparse/climb.h"
#include "sparse/spread_entries.h"
#include "transport/interface.h"

namespace ringwood {
namespace {

constexpr int kSparseWarmUps = 3;
constexpr double kPatienceSeconds = 60;  // for one exchange

// What the kernel counted on a NIC; zeros without one.
StatusOr<InterfaceBytes> CountedBytes(const std::string& nic) {
  return nic.empty() ? InterfaceBytes() : BytesOfInterface(nic);
}

class SparseBench {
 public:
  explicit SparseBench(const SparseBenchOptions& options) : options_(options) {}

  Status Open(const SessionOptions& session) {
    if (!session.network_interface.empty()) {
      RW_ASSIGN_OR_RETURN(interface_, ChooseInterface(session.network_interface));
    }
    RW_ASSIGN_OR_RETURN(Parts parts, MakeParts(session));
    connection_ = std::make_unique<Connection>(std::move(parts));
    RW_ASSIGN_OR_RETURN(link_, EpochLink::Join(connection_.get(), session));
    return OkStatus();
  }

  StatusOr<SparseBenchResult> Run();

  Status Close(const Status& outcome) {
    const Status left = link_->Leave(Message(outcome));
    link_->Fail(Aborted("the measurement is over"));
    return outcome.ok() ? left : outcome;
  }

 private:
  Plan MakePlan() const;
  Status Agree(const Plan& plan);
  Status MakeClimbs(const Plan& plan);
  Status Exchange(size_t which);
  Status Measure(size_t which, bool keep);
  // The largest of each number over all ranks.
  Status MaxOverRanks(std::span<double> numbers) {
    return link_->collectives()->AllReduce(std::as_writable_bytes(numbers), DataType::kFloat64,
                                           ReduceOp::kMax);
  }

  const SparseBenchOptions options_;
  std::string interface_;  // empty: no interface was named
  uint64_t round_ = 0;
  std::vector<Climb> climbs_;
  std::vector<Entries> ups_;
  std::vector<Descent> descents_;  // the last one of each case, whose memory the next one uses
  std::vector<SparseBenchCase> cases_;
  std::vector<std::vector<double>> seconds_;  // by case
  // Last, so destroyed first: an exchange that took too long may still be under way, and the link
  // ends when the network's loop has run everything that was posted to it.
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<EpochLink> link_;
};

// One tensor and one group a case.
Plan SparseBench::MakePlan() const {
  Plan plan;
  plan.planner = "bench";
  plan.fanout = static_cast<uint32_t>(options_.fanout);
  for (uint32_t i = 0; i < options_.entries.size(); ++i) {
    Group group;
    group.tensors = {i};
    group.route = "tree";
    group.k = options_.entries[i];
    group.density = static_cast<double>(group.k) / static_cast<double>(options_.elements);
    group.codec = options_.codec;
    group.merge = options_.merge;
    plan.groups.push_back(group);
  }
  return plan;
}

Status SparseBench::Agree(const Plan& plan) {
  v1::AgreeRequest request;
  request.set_epoch(link_->epoch());
  request.set_rank(static_cast<uint32_t>(link_->place().rank));
  request.set_incarnation(connection_->incarnation());
  for (size_t i = 0; i < options_.entries.size(); ++i) {
    *request.add_tensors() =
        ToProto(TensorSpec{absl::StrFormat("k%d-%d", options_.entries[i], i), options_.elements,
                           "sparse", plan.groups[i].density});
  }
  if (link_->place().rank == 0) *request.mutable_plan() = ToProto(plan);
  RW_ASSIGN_OR_RETURN(const v1::AgreeResponse response,
                      connection_->control()->Agree(request, Seconds(kPatienceSeconds)));
  round_ = response.from_round();
  return OkStatus();
}

Status SparseBench::MakeClimbs(const Plan& plan) {
  const Place& place = link_->place();
  const TreeShape job{.workers = place.world,
                      .reducers = place.servers,
                      .fanout = options_.fanout,
                      .hosts = place.node_hosts};
  const std::vector<uint64_t> elements(plan.groups.size(), options_.elements);
  RW_ASSIGN_OR_RETURN(const auto groups, SparseGroupsOf(plan, job, elements));
  for (const SparseGroup& group : groups) {
    RW_ASSIGN_OR_RETURN(Climb climb, Climb::Of(job, place.rank, group));
    const uint64_t seed = 1000 * group.k + static_cast<uint64_t>(place.rank);  // others elsewhere
    ups_.push_back(SpreadEntries(options_.elements, group.k, seed));
    climb.Round(&ups_.back());
    climbs_.push_back(std::move(climb));
    cases_.push_back({group.k, group.shards});
  }
  seconds_.resize(cases_.size());
  descents_.resize(cases_.size());
  return OkStatus();
}

Status SparseBench::Exchange(size_t which) {
  const auto answer = std::make_shared<std::promise<StatusOr<Descent>>>();
  std::future<StatusOr<Descent>> future = answer->get_future();
  const bool posted = connection_->net()->Post([this, which, answer] {
    climbs_[which].Start(
        link_->transport(), round_, ups_[which],
        [answer](StatusOr<Descent> descent) { answer->set_value(std::move(descent)); },
        std::move(descents_[which]));
  });
  if (!posted) return Exhausted("network queue full");
  if (future.wait_for(Seconds(kPatienceSeconds)) != std::future_status::ready) {
    return TimedOut(absl::StrFormat("rank %d: a sparse exchange took more than %g s",
                                    link_->place().rank, kPatienceSeconds));
  }
  RW_ASSIGN_OR_RETURN(descents_[which], future.get());
  return OkStatus();
}

Status SparseBench::Measure(size_t which, bool keep) {
  const AllReduceCall all_reduce = AllReduceOf(link_->collectives());
  RW_RETURN_IF_ERROR(Barrier(all_reduce));
  RW_ASSIGN_OR_RETURN(const InterfaceBytes before, CountedBytes(interface_));
  const TimePoint start = Now();
  RW_RETURN_IF_ERROR(Exchange(which));
  const double seconds = ToSeconds(Now() - start);
  RW_RETURN_IF_ERROR(Barrier(all_reduce));  // all is sent
  RW_ASSIGN_OR_RETURN(const InterfaceBytes after, CountedBytes(interface_));
  const uint64_t sent = after.sent - before.sent, received = after.received - before.received;
  double most[] = {seconds, static_cast<double>(std::max(sent, received)),
                   static_cast<double>(descents_[which].sent_bytes)};
  RW_RETURN_IF_ERROR(MaxOverRanks(most));
  if (!keep) return OkStatus();
  seconds_[which].push_back(most[0]);
  cases_[which].nic_bytes = std::max(cases_[which].nic_bytes, most[1]);
  cases_[which].worker_bytes = most[2];
  return OkStatus();
}

StatusOr<SparseBenchResult> SparseBench::Run() {
  const Plan plan = MakePlan();
  RW_RETURN_IF_ERROR(Agree(plan));
  RW_RETURN_IF_ERROR(MakeClimbs(plan));
  for (int i = 0; i < kSparseWarmUps + options_.rounds; ++i, ++round_) {
    for (size_t which = 0; which < cases_.size(); ++which) {
      RW_RETURN_IF_ERROR(Measure(which, i >= kSparseWarmUps));
    }
  }
  const Place& place = link_->place();
  SparseBenchResult result{place.rank, place.world, place.servers, cases_};
  for (size_t which = 0; which < cases_.size(); ++which) {
    result.cases[which].median_seconds = Median(seconds_[which]);
  }
  return result;
}

}  // namespace

StatusOr<SparseBenchResult> RunSparseBench(const SparseBenchOptions& options,
                                           const std::map<std::string, std::string>& environment) {
  RW_ASSIGN_OR_RETURN(const SessionOptions session, SessionOptionsOf(environment));
  SparseBench bench(options);
  RW_RETURN_IF_ERROR(bench.Open(session));
  StatusOr<SparseBenchResult> result = bench.Run();
  RW_RETURN_IF_ERROR(bench.Close(result.status()));
  return result;
}

}  // namespace ringwood
