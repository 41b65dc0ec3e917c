#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/random.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "server/calls/call_guard.h"
#include "server/calls/held_calls.h"
#include "server/coordinator/member_stream.h"

namespace ringwood {
namespace {

// Most streams that are not identified yet: those of all members at once. One more closes
// the oldest, and each closes by itself after a while.
constexpr size_t kMaxStrangers = 2 * kMaxWorld + kMaxServers;
constexpr double kStrangerSeconds = 5;
// Ticks within one failure timeout: silence is noticed this fraction late at most.
constexpr double kTicksPerTimeout = 20;
// And within the grace of a straggler.
constexpr double kTicksPerGrace = 8;

constexpr double kDescribeSeconds = 1;

double TickSeconds(const MembershipOptions& options) {
  const double tick = options.failure_timeout_seconds / kTicksPerTimeout;
  const double grace = options.straggler_grace_seconds;
  return grace > 0 ? std::min(tick, grace / kTicksPerGrace) : tick;
}

}  // namespace

class Coordinator::Service : public v1::Coordinator::CallbackService {
 public:
  Service(Options options, v1::EpochRecord recovered)
      : options_(std::move(options)),
        record_(recovered),
        membership_(options_.membership, std::move(recovered)),
        loop_("coordinator") {
    loop_.Post([this] { TickOn(); });
  }

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override {
    const Claimant claimant(*context, request->role());
    ringwood::Status admitted = claimant.MayBe(request->rank());
    if (admitted.ok()) admitted = CheckMayWait(*request);
    if (!admitted.ok()) return Refuse(response, admitted);
    return Hold<event::Join>(response, *request, Unpredictable() | 1);
  }
  grpc::ServerUnaryReactor* Agree(grpc::CallbackServerContext* context,
                                  const v1::AgreeRequest* request,
                                  v1::AgreeResponse* response) override {
    return HoldOfWorker<event::Agree>(*context, response, *request);
  }
  grpc::ServerUnaryReactor* Vote(grpc::CallbackServerContext* context,
                                 const v1::VoteRequest* request, v1::Commit* response) override {
    return HoldOfWorker<event::Vote>(*context, response, *request);
  }
  grpc::ServerUnaryReactor* Reattach(grpc::CallbackServerContext*,
                                     const v1::ReattachRequest* request,
                                     v1::ReattachResponse* response) override {
    return Hold<event::Reattach>(response, *request);
  }
  grpc::ServerUnaryReactor* Pull(grpc::CallbackServerContext*, const v1::PullRequest* request,
                                 v1::PullResponse* response) override {
    const ringwood::Status fits = CheckMayWait(*request);
    return fits.ok() ? Hold<event::Pull>(response, *request) : Refuse(response, fits);
  }
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext*, const v1::LeaveRequest* request,
                                  v1::LeaveResponse* response) override {
    return Hold<event::Leave>(response, *request);
  }
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext*, const v1::StatusRequest*,
                                   v1::StatusResponse* response) override {
    auto* call = new HeldCall<v1::StatusResponse>(response, [] {});
    if (!loop_.Post([this, call] { call->Answer(Described()); })) {
      call->Answer(Exhausted("the coordinator is overloaded or stopping"));
    }
    return call;
  }
  grpc::ServerBidiReactor<v1::Beat, v1::Notice>* Attend(grpc::CallbackServerContext*) override;

  StatusOr<v1::StatusResponse> Describe() {
    auto status = std::make_shared<v1::StatusResponse>();  // the loop's, after a timeout
    RW_RETURN_IF_ERROR(loop_.Call(
        [this, status] {
          *status = Described();
          return OkStatus();
        },
        Seconds(kDescribeSeconds)));
    return *status;
  }

  void Stop(const std::string& reason) {
    // Nothing follows from an answer that does not come: the gRPC server cancels what is left.
    (void)loop_.Call(
        [this, reason] {
          Happen(event::Stop{reason});
          stopped_ = Unavailable(reason);
          for (auto& [id, stream] : streams_) stream->Close(Unavailable(reason));
          return OkStatus();
        },
        Seconds(5));
  }

 private:
  // Answers a held call; the second argument is one of the alternatives of action::Reply.
  using Answer = std::function<void(decltype(action::Reply::answer)&)>;

  template <typename Response>
  static grpc::ServerUnaryReactor* Refuse(Response* response, const ringwood::Status& why) {
    auto* call = new HeldCall<Response>(response, [] {});
    call->Answer(why);
    return call;
  }

  // Event{call, request, more…} goes to the membership; the reactor stays until its Reply.
  template <typename Event, typename Response, typename Request, typename... More>
  grpc::ServerUnaryReactor* Hold(Response* response, const Request& request, More... more) {
    return HoldIf<Event>([] { return OkStatus(); }, response, request, more...);
  }

  // Of a worker that names its number in the epoch: in an elastic one that is not what it was
  // started as, which is what its certificate is for.
  template <typename Event, typename Response, typename Request>
  grpc::ServerUnaryReactor* HoldOfWorker(const grpc::ServerContextBase& context, Response* response,
                                         const Request& request) {
    const auto admit = [this, claimant = Claimant(context, v1::ROLE_WORKER),
                        epoch = request.epoch(), node = request.rank()] {
      const std::optional<uint32_t> slot = membership_.SlotOf(epoch, node);
      return slot ? claimant.MayBe(*slot) : claimant.admitted();  // not a member: nothing happens
    };
    return HoldIf<Event>(admit, response, request);
  }

  // `admit` says on the loop whether the event happens.
  template <typename Event, typename Admit, typename Response, typename Request, typename... More>
  grpc::ServerUnaryReactor* HoldIf(const Admit& admit, Response* response, const Request& request,
                                   More... more) {
    const CallId id = next_id_++;
    auto* call = new HeldCall<Response>(
        response, [this, id] { loop_.PostReserved([this, id] { Happen(event::CallGone{id}); }); });
    const bool posted = loop_.Post([this, id, call, admit, request, more...] {
      if (const ringwood::Status admitted = admit(); !admitted.ok()) return call->Answer(admitted);
      calls_[id] = [call](decltype(action::Reply::answer)& answer) {
        if (auto* status = std::get_if<ringwood::Status>(&answer)) return call->Answer(*status);
        call->Answer(std::move(std::get<Response>(answer)));
      };
      Happen(Event{id, request, more...});
    });
    if (!posted) call->Answer(Exhausted("the coordinator is overloaded or stopping"));
    return call;
  }

  void TickOn() {
    Happen(event::Tick{});
    while (!strangers_.empty() && Now() - strangers_.begin()->second > Seconds(kStrangerSeconds)) {
      CloseOldest(Aborted("no heartbeat of a member came on this stream"));
    }
    loop_.After(Seconds(TickSeconds(options_.membership)), [this] { TickOn(); });
  }

  void Open(StreamId id, std::shared_ptr<MemberStream> stream) {
    if (!stopped_.ok()) return stream->Close(stopped_);
    streams_[id] = std::move(stream);
    strangers_[id] = Now();
    if (strangers_.size() > kMaxStrangers) CloseOldest(Exhausted("too many streams at once"));
  }
  void CloseOldest(const ringwood::Status& why) {
    const StreamId id = strangers_.extract(strangers_.begin()).key();
    if (auto found = streams_.find(id); found != streams_.end()) found->second->Close(why);
  }

  v1::StatusResponse Described() {
    v1::StatusResponse status = membership_.Describe();
    if (options_.complete) options_.complete(&status, Now());
    return status;
  }

  void Happen(const Event& event) {
    const TimePoint now = Now();
    Actions actions = membership_.On(event, now);
    SetLogPlace(membership_.epoch(), membership_.step());
    if (options_.seen) options_.seen(event, actions, now);
    for (Action& action : actions) {
      std::visit([this](auto& what) { Do(what); }, action);
    }
    KeepEnd();
  }

  // A server that is started again then waits for nobody to come back.
  void KeepEnd() {
    if (record_.members().empty() || membership_.ended() != record_.epoch()) return;
    record_.clear_members();
    record_.set_world(0);
    const ringwood::Status kept = options_.store->Save(record_);
    if (kept.ok()) return;
    Log(LogLevel::kWarning, absl::StrFormat("the end of epoch %d is not on record: %s",
                                            record_.epoch(), Message(kept)));
  }

  void Do(action::Reply& reply) {
    auto call = calls_.extract(reply.call);
    RW_CHECK(!call.empty());
    call.mapped()(reply.answer);
  }
  void Do(action::FindBase& find) {
    options_.find_base(find.job, find.stores, [this](StatusOr<std::optional<CheckpointBase>> base) {
      loop_.PostReserved([this, base = std::move(base)] { Happen(event::BaseFound{base}); });
    });
  }
  void Do(action::Persist& persist) {
    const ringwood::Status saved = options_.store->Save(persist.record);
    if (saved.ok()) record_ = persist.record;
    loop_.PostReserved([this, saved] { Happen(event::Persisted{saved}); });
  }
  void Do(action::Activate& activate) { options_.on_epoch(activate.record); }
  void Do(action::Notify& notify) {
    if (auto found = streams_.find(notify.stream); found != streams_.end()) {
      found->second->Send(notify.notice);
    }
  }
  void Do(action::CloseStream& close) {
    if (auto found = streams_.find(close.stream); found != streams_.end()) {
      found->second->Close(close.status);
    }
  }
  void Do(action::Verdict& verdict) {
    const v1::Failure& failure = verdict.failure;
    Log(LogLevel::kWarning, "epoch_failed",
        Shortened(absl::StrFormat("epoch %d is over: %s failed at step %d: %s", failure.epoch(),
                                  failure.who().empty() ? "the job" : failure.who(), failure.step(),
                                  failure.reason()),
                  kMaxStatusBytes));
    if (options_.on_failure) options_.on_failure(failure);
  }
  void Do(action::Await& await) {
    if (options_.on_await) options_.on_await(await.ranks);
  }
  void Do(action::Report& report) { Log(report.level, report.event, report.text); }

  Options options_;
  ringwood::Status stopped_;        // what who comes later is told. Touched only on loop_
  v1::EpochRecord record_;          // as it is kept; touched only on loop_
  Membership membership_;           // touched only on loop_
  std::map<CallId, Answer> calls_;  // touched only on loop_
  std::map<StreamId, std::shared_ptr<MemberStream>> streams_;  // touched only on loop_
  std::atomic<uint64_t> next_id_{1};
  std::map<StreamId, TimePoint> strangers_;  // by age; since when. Touched only on loop_
  Loop loop_;                                // last: its thread uses the others
};

grpc::ServerBidiReactor<v1::Beat, v1::Notice>* Coordinator::Service::Attend(
    grpc::CallbackServerContext*) {
  const StreamId id = next_id_++;
  MemberStream::Callbacks callbacks;
  callbacks.beat = [this, id](const v1::Beat& beat) {
    loop_.PostReserved([this, id, beat] {
      Happen(event::Heartbeat{id, beat});
      const auto found = streams_.find(id);
      if (found == streams_.end()) return;
      if (membership_.Attends(id) && strangers_.erase(id) > 0) found->second->Confirm();
      found->second->Next();
    });
  };
  callbacks.broken = [this, id] {
    loop_.PostReserved([this, id] {
      Happen(event::StreamBroken{id});
      streams_.erase(id);
      strangers_.erase(id);
    });
  };
  auto stream = std::make_shared<MemberStream>(std::move(callbacks));
  const bool posted = loop_.Post([this, id, stream] { Open(id, stream); });
  stream->Open();
  if (!posted) stream->Close(Exhausted("the coordinator is overloaded or stopping"));
  return stream.get();
}

StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(Options options) {
  RW_ASSIGN_OR_RETURN(v1::EpochRecord recovered, options.store->Load());
  if (recovered.epoch() < options.epoch_floor) {  // it is not of the newest epoch
    recovered.Clear();
    recovered.set_epoch(options.epoch_floor);
  }
  return std::unique_ptr<Coordinator>(
      new Coordinator(std::make_unique<Service>(std::move(options), std::move(recovered))));
}

Coordinator::Coordinator(std::unique_ptr<Service> service) : service_(std::move(service)) {}
Coordinator::~Coordinator() = default;
grpc::Service* Coordinator::service() { return service_.get(); }
void Coordinator::Stop(const std::string& reason) { service_->Stop(reason); }
StatusOr<v1::StatusResponse> Coordinator::Describe() { return service_->Describe(); }

}  // namespace ringwood
