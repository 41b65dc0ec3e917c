#include "server/deployment_doors.h"

#include <grpcpp/support/server_callback.h>

#include <set>
#include <string_view>
#include <utility>

#include "proto/token.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "ringwood/v1/deployment.grpc.pb.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "ringwood/v1/updates.grpc.pb.h"
#include "server/calls/held_calls.h"

namespace ringwood {
namespace {

using Context = grpc::CallbackServerContext;

// gRPC releases it when the call's reactor is done.
struct PlacedContext : Context {
  std::unique_ptr<Deployment::Place> place;
};

class PlacedContexts : public grpc::ContextAllocator {
 public:
  ~PlacedContexts() override {
    for (PlacedContext* context : live_) delete context;  // of calls that never began
  }
  Context* NewCallbackServerContext() override {
    auto* context = new PlacedContext;
    absl::MutexLock lock(&mutex_);
    live_.insert(context);
    return context;
  }
  void Release(Context* context) override {
    auto* const placed = static_cast<PlacedContext*>(context);
    {
      absl::MutexLock lock(&mutex_);
      live_.erase(placed);
    }
    delete placed;
  }

 private:
  absl::Mutex mutex_;
  std::set<PlacedContext*> live_ ABSL_GUARDED_BY(mutex_);
};

std::string_view TokenIn(const Context& context) {
  const auto found = context.client_metadata().find(kTokenKey);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

// A call that goes no further.
template <typename Reactor>
class Turned : public Reactor {
 public:
  explicit Turned(const Status& why) { this->Finish(ToGrpc(why)); }

 private:
  void OnDone() override { delete this; }
};

// `call` makes the reactor of a call in its job.
template <typename Reactor, typename Call>
Reactor* Through(Deployment* deployment, Context* context, const Call& call) {
  auto place = deployment->Enter(TokenIn(*context));
  if (!place.ok()) return new Turned<Reactor>(place.status());
  auto* const placed = static_cast<PlacedContext*>(context);
  placed->place = *std::move(place);
  return call(placed->place->host());
}

class CoordinatorDoor : public v1::Coordinator::CallbackService {
  using Unary = grpc::ServerUnaryReactor;
  using Beats = grpc::ServerBidiReactor<v1::Beat, v1::Notice>;

 public:
  explicit CoordinatorDoor(Deployment* deployment) : deployment_(deployment) {}

  Unary* Join(Context* context, const v1::JoinRequest* request,
              v1::JoinResponse* response) override {
    return Go(context, [&](auto* job) { return job->Join(context, request, response); });
  }
  Unary* Agree(Context* context, const v1::AgreeRequest* request,
               v1::AgreeResponse* response) override {
    return Go(context, [&](auto* job) { return job->Agree(context, request, response); });
  }
  Unary* Vote(Context* context, const v1::VoteRequest* request, v1::Commit* response) override {
    return Go(context, [&](auto* job) { return job->Vote(context, request, response); });
  }
  Unary* Reattach(Context* context, const v1::ReattachRequest* request,
                  v1::ReattachResponse* response) override {
    return Go(context, [&](auto* job) { return job->Reattach(context, request, response); });
  }
  Unary* Leave(Context* context, const v1::LeaveRequest* request,
               v1::LeaveResponse* response) override {
    return Go(context, [&](auto* job) { return job->Leave(context, request, response); });
  }
  Unary* Pull(Context* context, const v1::PullRequest* request,
              v1::PullResponse* response) override {
    return Go(context, [&](auto* job) { return job->Pull(context, request, response); });
  }
  Unary* Status(Context* context, const v1::StatusRequest* request,
                v1::StatusResponse* response) override {
    return Go(context, [&](auto* job) { return job->Status(context, request, response); });
  }
  Beats* Attend(Context* context) override {
    return Through<Beats>(deployment_, context,
                          [&](JobHost& host) { return JobOf(host)->Attend(context); });
  }

 private:
  static v1::Coordinator::CallbackService* JobOf(JobHost& host) {
    return static_cast<v1::Coordinator::CallbackService*>(host.coordinator().service());
  }
  template <typename Call>
  Unary* Go(Context* context, const Call& call) {
    return Through<Unary>(deployment_, context, [&](JobHost& host) { return call(JobOf(host)); });
  }

  Deployment* const deployment_;
};

class StoreDoor : public v1::Store::CallbackService {
 public:
  explicit StoreDoor(Deployment* deployment) : deployment_(deployment) {}

  grpc::ServerReadReactor<v1::SaveChunk>* Save(Context* context,
                                               v1::SaveReceipt* response) override {
    return Go<grpc::ServerReadReactor<v1::SaveChunk>>(
        context, [&](auto* job) { return job->Save(context, response); });
  }
  grpc::ServerUnaryReactor* Await(Context* context, const v1::AwaitRequest* request,
                                  v1::AwaitResponse* response) override {
    return Go<grpc::ServerUnaryReactor>(
        context, [&](auto* job) { return job->Await(context, request, response); });
  }
  grpc::ServerWriteReactor<v1::LoadChunk>* Load(Context* context,
                                                const v1::LoadRequest* request) override {
    return Go<grpc::ServerWriteReactor<v1::LoadChunk>>(
        context, [&](auto* job) { return job->Load(context, request); });
  }
  grpc::ServerWriteReactor<v1::ItemsPart>* Items(Context* context,
                                                 const v1::ItemsRequest* request) override {
    return Go<grpc::ServerWriteReactor<v1::ItemsPart>>(
        context, [&](auto* job) { return job->Items(context, request); });
  }
  grpc::ServerWriteReactor<v1::HeldPart>* Hold(Context* context,
                                               const v1::HoldRequest* request) override {
    return Go<grpc::ServerWriteReactor<v1::HeldPart>>(
        context, [&](auto* job) { return job->Hold(context, request); });
  }

 private:
  template <typename Reactor, typename Call>
  Reactor* Go(Context* context, const Call& call) {
    return Through<Reactor>(deployment_, context, [&](JobHost& host) {
      return call(static_cast<v1::Store::CallbackService*>(host.store().service()));
    });
  }

  Deployment* const deployment_;
};

class UpdatesDoor : public v1::Updates::CallbackService {
 public:
  explicit UpdatesDoor(Deployment* deployment) : deployment_(deployment) {}

  grpc::ServerReadReactor<v1::LogPiece>* Log(Context* context, v1::LogReceipt* response) override {
    return Through<grpc::ServerReadReactor<v1::LogPiece>>(
        deployment_, context, [&](JobHost& host) { return JobOf(host)->Log(context, response); });
  }
  grpc::ServerWriteReactor<v1::LogPiece>* Replay(Context* context,
                                                 const v1::ReplayRequest* request) override {
    return Through<grpc::ServerWriteReactor<v1::LogPiece>>(
        deployment_, context, [&](JobHost& host) { return JobOf(host)->Replay(context, request); });
  }

 private:
  static v1::Updates::CallbackService* JobOf(JobHost& host) {
    return static_cast<v1::Updates::CallbackService*>(host.updates().service());
  }

  Deployment* const deployment_;
};

class JobsDoor : public v1::Deployment::CallbackService {
 public:
  explicit JobsDoor(Deployment* deployment) : deployment_(deployment) {}

  grpc::ServerUnaryReactor* Jobs(Context* context, const v1::JobsRequest*,
                                 v1::JobsResponse* response) override {
    *response = deployment_->Describe(TokenIn(*context));
    return new Turned<grpc::ServerUnaryReactor>(OkStatus());
  }

 private:
  Deployment* const deployment_;
};

}  // namespace

DeploymentDoors::DeploymentDoors(Deployment* deployment) {
  services_.push_back(std::make_unique<CoordinatorDoor>(deployment));
  services_.push_back(std::make_unique<StoreDoor>(deployment));
  services_.push_back(std::make_unique<UpdatesDoor>(deployment));
  services_.push_back(std::make_unique<JobsDoor>(deployment));
}

DeploymentDoors::~DeploymentDoors() = default;

std::vector<grpc::Service*> DeploymentDoors::services() const {
  std::vector<grpc::Service*> all;
  for (const auto& service : services_) all.push_back(service.get());
  return all;
}

std::unique_ptr<grpc::ContextAllocator> DeploymentDoors::Contexts() {
  return std::make_unique<PlacedContexts>();
}

}  // namespace ringwood
