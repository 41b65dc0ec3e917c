#include "client/plan_in_force.h"

#include <algorithm>
#include <utility>

#include "client/plan_exchanges.h"

namespace ringwood {

StatusOr<int> PlanInForce::Register(const Tensor& tensor) {
  absl::MutexLock lock(&mutex_);
  if (any_early_) return Refused("tensor '" + tensor.spec.name + "' comes after the first ready");
  const int id = table_->Add(tensor);
  early_ready_.push_back(false);
  return id;
}

Status PlanInForce::Rebind(int id, void* data) {
  absl::MutexLock lock(&mutex_);
  if (pipeline_ ? pipeline_->IsReady(table_->IndexOf(id)) : early_ready_[id]) {
    return Refused("tensor '" + table_->name(id) +
                   "' moved between ready and finish_step: it may be in use");
  }
  table_->Rebind(id, data);
  return OkStatus();
}

Status PlanInForce::Ready(int id) {
  absl::MutexLock lock(&mutex_);
  RW_RETURN_IF_ERROR(table_->CheckId(id));
  if (pipeline_ != nullptr) {
    const Status ready = pipeline_->Ready(table_->IndexOf(id));
    return ready.ok() ? ready : Annotate(ready, "tensor '" + table_->name(id) + "'");
  }
  if (early_ready_[id]) {
    return AlreadyExists("tensor '" + table_->name(id) + "' is ready twice in one step");
  }
  early_ready_[id] = any_early_ = true;
  return OkStatus();
}

Status PlanInForce::Install(Plan plan, uint32_t generation, uint64_t round, double weight,
                            EpochLink* link) {
  // Before the next one is made: two plans' buffers would be twice the memory.
  RW_RETURN_IF_ERROR(Detach());
  plan_ = std::move(plan);
  RW_RETURN_IF_ERROR(OpenDeviceRing(link));
  states_->Prepare(plan_);
  RW_ASSIGN_OR_RETURN(PlanExchanges made, MakeExchanges(plan_, *table_, states_, link));
  states_->Hand(std::move(made.holders));
  updates_->Take([states = states_](size_t id) { return states->SumOf(id); }, table_->ById());
  Pipeline::Shell shell{link->connection()->compute(), link->connection()->net(), link->transport(),
                        observer_};
  if (table_->IsOnDevice()) shell.windows.ring = 1;  // NCCL runs what is on one stream in turn
  std::vector<std::vector<size_t>> ids;
  for (const Group& group : plan_.groups) ids.push_back(table_->IdsOf(group));
  shell.reached = [updates = updates_, ids](int group, uint64_t of) -> Exchange::Reached {
    if (!updates->writes()) return nullptr;
    return [updates, of, ids = ids[group]](size_t tensor, size_t elements) {
      updates->Reached(of, ids[tensor], elements);
    };
  };
  shell.exchanged = [updates = updates_, ids = std::move(ids)](int group, uint64_t of) {
    updates->Exchanged(of, ids[group]);
  };
  std::unique_ptr<RoundTotals> totals;
  if (link->elastic() || link->joined().update_log()) {
    totals = std::make_unique<RoundTotals>(link->place());
  }
  auto pipeline = std::make_unique<Pipeline>(shell, plan_, generation, table_->size(),
                                             std::move(made.by_group), std::move(totals));
  observer_->PlanAdopted(plan_, table_->Specs(), round);
  pipeline->Begin(round);
  RW_RETURN_IF_ERROR(pipeline->SetWeight(weight));
  text_ = ToString(plan_, table_->Specs());
  {
    absl::MutexLock lock(&mutex_);
    pipeline_ = std::move(pipeline);
  }
  // A failure announced before the pipeline stood has passed it by.
  const Status failed = link->status();
  if (!failed.ok()) Fail(failed);
  if (link->joined().regroup()) Fail(Aborted("a process waits to take part"));
  return OkStatus();
}

// Every epoch has a ring of its own, from an id that rank 0 makes and the host transport carries.
// Plans change on all ranks between the same two steps, so all come here together.
Status PlanInForce::OpenDeviceRing(EpochLink* link) const {
  if (!table_->IsOnDevice() || link->device_ring() != nullptr) return OkStatus();
  bool needed = false;
  for (const Group& group : plan_.groups) needed |= group.route == "ring";
  if (!needed) return OkStatus();
  const Place& place = link->place();
  if (place.world > 1) RW_RETURN_IF_ERROR(link->connection()->accelerator().ring_refused);
  DeviceRingOptions options;
  options.device = (*table_)[0].device->index;
  options.rank = place.rank;
  options.world = place.world;
  options.hosts = place.hosts;
  options.timeout_seconds = kLongestWaitSeconds;  // heartbeats find the dead
  if (place.world > 1) {
    if (place.rank == 0) {
      RW_ASSIGN_OR_RETURN(options.id, link->connection()->accelerator().make_ring_id());
    }
    options.id.resize(kDeviceRingIdBytes);
    RW_RETURN_IF_ERROR(
        link->collectives()->Broadcast(std::as_writable_bytes(std::span(options.id)), 0));
  }
  return link->OpenDeviceRing(options);
}

Status PlanInForce::Start() {
  absl::MutexLock lock(&mutex_);
  for (size_t id = 0; id < early_ready_.size(); ++id) {
    if (!early_ready_[id]) continue;
    early_ready_[id] = false;
    RW_RETURN_IF_ERROR(pipeline_->Ready(table_->IndexOf(id)));
  }
  return OkStatus();
}

Status PlanInForce::Detach(bool keep_ready) {
  RW_RETURN_IF_ERROR(states_->TakeBack());
  std::unique_ptr<Pipeline> ended;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  for (size_t id = 0; keep_ready && pipeline_ != nullptr && id < early_ready_.size(); ++id) {
    early_ready_[id] = pipeline_->IsReady(table_->IndexOf(static_cast<int>(id)));
  }
  ended = std::move(pipeline_);
  return OkStatus();
}

void PlanInForce::End() {
  std::unique_ptr<Pipeline> ended;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  ended = std::move(pipeline_);
}

void PlanInForce::Fail(const Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (pipeline_) pipeline_->Fail(reason);
}

Pipeline* PlanInForce::pipeline() {
  absl::MutexLock lock(&mutex_);
  return pipeline_.get();
}

std::string PlanInForce::route(int id) const {
  if (!table_->CheckId(id).ok()) return "";
  const uint32_t index = table_->IndexOf(id).value;
  for (const Group& group : plan_.groups) {
    const bool here =
        std::find(group.tensors.begin(), group.tensors.end(), index) != group.tensors.end();
    if (here) return group.route;
  }
  return "";
}

}  // namespace ringwood
