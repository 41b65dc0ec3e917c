// Control calls in any order, from members, from former members and from strangers, into the
// membership: it never ends the process, answers every call once, never goes back to an older epoch
// and lets nothing into the log that a terminal would obey.
//
// sources: server/coordinator/membership.cc server/coordinator/membership_status.cc
// sources: server/coordinator/gathering/gathering.cc
// sources: server/coordinator/epoch/epoch.cc server/coordinator/epoch/presence.cc
// sources: server/coordinator/epoch/active_plan.cc server/coordinator/roster.cc
// sources: server/coordinator/epoch/plan_facts.cc server/coordinator/epoch/epoch_plan.cc
// sources: server/coordinator/epoch/failure.cc server/coordinator/epoch/welcome.cc
// sources: server/coordinator/gathering/join_rules.cc server/coordinator/gathering/candidates.cc
// sources: server/coordinator/patience/stall_watch.cc server/calls/member_label.cc
// sources: server/coordinator/gathering/waiting_room.cc server/coordinator/epoch/agreement.cc
// sources: server/coordinator/epoch/ballot.cc server/coordinator/admission.cc plan/wire.cc
// sources: plan/strategy/validate.cc plan/sparse_groups.cc sparse/reducer/part.cc sparse/codec.cc
// sources: sparse/index_code.cc sparse/value_code.cc sparse/bits/sum_code.cc base/status.cc
// sources: base/check.cc base/text.cc base/units.cc plan/plan.cc sparse/tree.cc sparse/group.cc
// sources: sparse/assign.cc sparse/chunks.cc sparse/shard.cc control.pb.cc state.pb.cc
// sources: server/coordinator/patience/cut_off.cc server/coordinator/reattachment.cc
// sources: server/coordinator/gathering/recovery.cc server/coordinator/patience/apart.cc
// sources: server/coordinator/patience/straggler_watch.cc server/coordinator/pulls.cc
// libraries: protobuf libhwy libxxhash
#define RINGWOOD_XXHASH <xxhash.h>  // as cmake/packages.cmake says it
#include <cmath>
#include <deque>
#include <limits>
#include <set>
#include <string>

#include "base/check.h"
#include "base/digest.cc"
#include "server/coordinator/membership.h"
#include "tests/plan/small_plans.h"

namespace ringwood {
namespace {

// Bytes as choices: small numbers, sometimes wild ones, and texts.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool over() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  uint64_t Small() {
    const uint8_t byte = Byte();
    if (byte < 250) return byte % 5;
    return byte == 255 ? std::numeric_limits<uint64_t>::max() : uint64_t{1} << (8 * (byte - 248));
  }
  double Real() {
    switch (const uint8_t byte = Byte()) {
      case 255:
        return std::nan("");
      case 254:
        return -1;
      case 253:
        return std::numeric_limits<double>::infinity();
      default:
        return byte / 8.0;
    }
  }
  std::string Text() {
    std::string text;
    for (uint8_t length = Byte() % 8; length > 0; --length)
      text.push_back(static_cast<char>(Byte() % 128));
    return Byte() == 7 ? std::string(5000, 'x') + text : text;
  }
  // A message as it comes from the wire, or nothing.
  template <typename Message>
  void Parse(Message* message) {
    std::string bytes;
    for (uint8_t length = Byte() % 64; length > 0; --length)
      bytes.push_back(static_cast<char>(Byte()));
    if (!message->ParseFromString(bytes)) message->Clear();
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

class Shell {
 public:
  explicit Shell(Choices* choices)
      : choices_(*choices),
        epoch_(choices->Byte() % 4 ? 0 : 1),
        membership_(Options(choices), Recorded(epoch_)) {}

  void Play() {
    while (!choices_.over()) {
      now_ += Seconds(choices_.Byte() / 32.0);
      Happen(Next());
      (void)membership_.Describe();
    }
    Happen(event::Stop{"the end"});
    RW_CHECK(open_.empty());
  }

 private:
  static MembershipOptions Options(Choices* choices) {
    MembershipOptions options;
    options.servers = choices->Byte() % 2;
    options.stall_timeout_seconds = choices->Byte() % 20;
    if (choices->Byte() % 2) options.own_reducer = {0, 1};
    options.elastic = choices->Byte() % 2;
    options.keeps_checkpoints = true;
    const int world = choices->Byte();
    options.min_world = 1 + world % 2;
    options.straggler_grace_seconds = world / 2 % 2 ? 0.5 : 0;
    options.reattach_grace_seconds = choices->Byte() % 8;
    options.hash = [](uint64_t incarnation) { return std::to_string(incarnation); };
    return options;
  }

  // Of a server that is started again: two workers and a server, all of incarnation 1.
  static v1::EpochRecord Recorded(uint64_t epoch) {
    v1::EpochRecord record;
    if (epoch == 0) return record;
    record.set_job(7);
    record.set_epoch(epoch);
    record.set_world(2);
    for (uint32_t node = 0; node < 3; ++node) {
      v1::RecordedMember* member = record.add_members();
      member->set_role(node < 2 ? v1::ROLE_WORKER : v1::ROLE_REDUCER);
      member->set_rank(node < 2 ? node : 0);
      member->set_incarnation_hash("1");
    }
    return record;
  }

  void Fill(v1::Held* held) {
    held->set_job(choices_.Byte() < 250 ? 7 : choices_.Small());
    held->set_epoch(choices_.Byte() < 200 ? membership_.epoch() : choices_.Small());
    held->set_round(choices_.Byte() < 200 ? membership_.Describe().step() : choices_.Small());
    held->set_prepared(choices_.Byte() % 2);
    held->set_receiving(choices_.Byte() == 0);
    held->set_digest(choices_.Byte() == 0);
    if (choices_.Byte() % 4 == 0) held->add_silent(static_cast<uint32_t>(choices_.Small()));
  }

  Event Reattach() {
    event::Reattach back{Open(), {}};
    v1::ReattachRequest& request = back.request;
    Sign(&request);
    request.set_node(static_cast<uint32_t>(choices_.Small()));
    request.mutable_joined()->set_role(request.node() < 2 ? v1::ROLE_WORKER : v1::ROLE_REDUCER);
    request.mutable_joined()->set_rank(request.node() < 2 ? request.node() : 0);
    request.mutable_joined()->set_incarnation(request.incarnation());
    request.set_round(choices_.Small());
    if (choices_.Byte() % 2) {
      request.mutable_last()->set_epoch(request.epoch());
      request.mutable_last()->set_round(request.round());
    }
    if (choices_.Byte() % 2) return back;
    v1::AgreeRequest* table = request.mutable_table();
    table->set_rank(choices_.Byte() < 200 ? request.node() : 0);
    table->add_tensors()->set_name("a");
    table->mutable_tensors(0)->set_elements(10);
    table->mutable_tensors(0)->set_route("auto");
    table->mutable_tensors(0)->set_density(0.5);
    *table->mutable_plan() = OneRing(1, "exact");
    if (choices_.Byte() % 8 == 0) Fill(table->mutable_plan());
    request.set_generation(static_cast<uint32_t>(choices_.Small()));
    return back;
  }

  CallId Open() {
    open_.insert(++last_);
    return last_;
  }

  // A member of the present epoch more often than anybody else.
  template <typename Request>
  void Sign(Request* request) {
    request->set_epoch(choices_.Byte() < 200 ? membership_.epoch() : choices_.Small());
    request->set_incarnation(choices_.Byte() < 200 ? 1 : choices_.Small());
  }

  void Fill(v1::Plan* plan) {
    if (choices_.Byte() % 4 == 0) return choices_.Parse(plan);
    plan->set_planner(choices_.Text());
    v1::Group* group = plan->add_groups();
    group->add_tensors(0);
    group->set_route(choices_.Byte() % 4 ? "ring" : "tree");
    group->set_k(choices_.Small());
    plan->set_fanout(static_cast<uint32_t>(choices_.Small()));
    plan->set_hash(choices_.Small());
  }

  Event Next() {
    switch (choices_.Byte() % 12) {
      case 0:
      case 1: {
        event::Join join{Open(), {}, 7};
        join.request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
        join.request.set_role(static_cast<v1::Role>(choices_.Byte() % 4));
        join.request.set_rank(static_cast<uint32_t>(choices_.Small()));
        join.request.set_world(2);
        join.request.set_incarnation(choices_.Byte() < 220 ? 1 : choices_.Small());
        join.request.set_resume(choices_.Byte() == 0);
        if (choices_.Byte() % 8 == 0) join.request.set_host(choices_.Text());
        if (choices_.Byte() % 2) Fill(join.request.mutable_held());
        if (choices_.Byte() % 16 == 0) join.request.set_newest_epoch_seen(choices_.Small());
        if (choices_.Byte() % 16 == 0) choices_.Parse(&join.request);
        return join;
      }
      case 2: {
        event::Agree agree{Open(), {}};
        if (choices_.Byte() % 8 == 0) choices_.Parse(&agree.request);
        Sign(&agree.request);
        agree.request.set_rank(static_cast<uint32_t>(choices_.Small()));
        v1::Tensor* tensor = agree.request.add_tensors();
        tensor->set_name(choices_.Byte() % 8 ? "a" : choices_.Text());
        tensor->set_elements(choices_.Byte() % 8 ? 10 : choices_.Small());
        tensor->set_route("dense");
        tensor->set_density(0.5);
        if (agree.request.rank() == 0) {
          if (choices_.Byte() % 4 == 0) {
            Fill(agree.request.mutable_plan());
          } else {
            *agree.request.mutable_plan() =
                OneRing(static_cast<uint32_t>(agree.request.tensors_size()), "exact");
          }
        }
        return agree;
      }
      case 3:
      case 4: {
        event::Vote vote{Open(), {}};
        Sign(&vote.request);
        vote.request.set_rank(static_cast<uint32_t>(choices_.Small()));
        vote.request.set_round(membership_.Describe().step() + choices_.Byte() % 3);
        vote.request.set_digest(choices_.Byte() < 250 ? 5 : choices_.Small());
        vote.request.set_weight(choices_.Real());
        vote.request.set_non_finite(choices_.Byte() == 0);
        if (const uint8_t wish = choices_.Byte(); wish % 16 == 0) {
          Fill(vote.request.mutable_plan());
        } else if (wish % 16 == 1) {
          *vote.request.mutable_plan() = OneRing(1, "wfbp");
        }
        vote.request.set_checkpoint(vote.request.rank() == 0 && choices_.Byte() % 4 == 0);
        vote.request.set_ending(choices_.Byte() % 16 == 0);
        vote.request.set_plan_reason(choices_.Text());
        vote.request.set_leaving(choices_.Byte() % 16 == 1);
        return vote;
      }
      case 5: {
        event::Leave leave{Open(), {}};
        Sign(&leave.request);
        leave.request.set_node(static_cast<uint32_t>(choices_.Small()));
        leave.request.set_failed(choices_.Byte() % 2);
        leave.request.set_reason(choices_.Text());
        return leave;
      }
      case 6:
        return event::CallGone{open_.empty() ? choices_.Small() : *open_.begin()};
      case 7: {
        event::Heartbeat beat{1 + choices_.Byte() % 6u, {}};
        Sign(&beat.beat);
        beat.beat.set_node(static_cast<uint32_t>(choices_.Small()));
        beat.beat.set_step(choices_.Small());
        beat.beat.set_progress(choices_.Small());
        return beat;
      }
      case 8:
        return event::StreamBroken{1 + choices_.Byte() % 6u};
      case 9:
        return Reattach();
      case 10: {
        event::Pull pull{Open(), {}};
        pull.request.set_job(choices_.Byte() % 4 ? 0 : choices_.Small());
        pull.request.set_timeout_seconds(choices_.Real());
        return pull;
      }
      default:
        return event::Tick{};
    }
  }

  void Happen(const Event& event) {
    std::deque<Event> answers;  // of the disk, which come as events of their own
    for (const Action& action : membership_.On(event, now_)) {
      if (const auto* reply = std::get_if<action::Reply>(&action)) {
        RW_CHECK(open_.erase(reply->call) == 1);
      } else if (const auto* persist = std::get_if<action::Persist>(&action)) {
        RW_CHECK(persist->record.epoch() > epoch_);
        const bool kept = choices_.Byte() != 255;
        if (kept) epoch_ = persist->record.epoch();
        answers.push_back(event::Persisted{kept ? OkStatus() : Exhausted("the disk is full")});
      } else if (std::holds_alternative<action::FindBase>(action)) {
        answers.push_back(event::BaseFound{std::optional<CheckpointBase>()});
      } else if (const auto* report = std::get_if<action::Report>(&action)) {
        for (const unsigned char c : report->text) RW_CHECK(c >= 0x20 && c != 0x7F);
      }
    }
    for (const Event& answer : answers) Happen(answer);
    RW_CHECK(membership_.epoch() <= epoch_);
  }

  Choices& choices_;
  uint64_t epoch_;  // on disk
  Membership membership_;
  TimePoint now_{};
  std::set<CallId> open_;
  CallId last_ = 100;
};

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringwood::Choices choices(data, size);
  ringwood::Shell(&choices).Play();
  return 0;
}
