#include "server/reducer/reducer_attendance.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/resident.h"

namespace ringwood {
namespace {

constexpr double kLookSeconds = 0.1;  // between two looks whether the coordinator is back
constexpr double kLeaveSeconds = 1;   // for a Leave: its answer does not matter

}  // namespace

ReducerAttendance::ReducerAttendance(Loop* loop, Options options, Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      tie_("the coordinator at " + options_.coordinator, options_.grace),
      link_(
          std::make_unique<ControlLink>(options_.coordinator, options_.access, options_.silence)) {
  Open();
  BeatOn();
}

ReducerAttendance::~ReducerAttendance() = default;

void ReducerAttendance::Later(std::function<void()> task) {
  loop_->PostReserved([alive = std::weak_ptr<char>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

void ReducerAttendance::After(Duration delay, std::function<void()> task) {
  loop_->After(delay, [alive = std::weak_ptr<char>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

void ReducerAttendance::Open() {
  link_->Attend({[this] { Later([this] { Confirmed(); }); },
                 [this](const v1::Notice& notice) { Later([this, notice] { Noticed(notice); }); },
                 [this](const Status& why) { Later([this, why] { StreamEnded(why); }); }});
  Beat();
}

void ReducerAttendance::StreamEnded(const Status& why) {
  if (quiet_) return;
  const bool again = tie_.lost();
  if (!again) lost_since_ = Now();
  const bool decides = options_.grace <= Duration::zero() && MayBeTheConnection(why.code());
  const bool connected = decides ? !link_->Broke() : link_->connected();
  const Act act = tie_.StreamEnded(why, connected, Now());
  if (act == Act::kReattach && !again) {
    Log(LogLevel::kWarning, "coordinator_lost",
        absl::StrFormat("the coordinator is lost: looking for it for %g s, epoch %d stands",
                        ToSeconds(options_.grace), options_.welcome.epoch()));
  }
  Follow(act, false);
}

void ReducerAttendance::Follow(Act act, bool told) {
  if (act == Act::kReattach) return Reattach();
  if (act == Act::kAttend) return Open();
  if (act != Act::kEnd) return;
  const auto over = callbacks_.over;
  over(Status(tie_.why()), told);  // may end this
}

void ReducerAttendance::Confirmed() {
  if (quiet_ || tie_.attached() || tie_.over()) return;
  if (tie_.lost()) {
    Log(LogLevel::kInfo, "coordinator_back",
        absl::StrFormat("the coordinator is back after %.2f s: epoch %d goes on",
                        ToSeconds(Now() - lost_since_), options_.welcome.epoch()));
  }
  tie_.Confirmed();
  if (leave_) link_->Leave(*std::exchange(leave_, std::nullopt), Seconds(kLeaveSeconds));
  if (std::exchange(confirmed_, true)) return;
  const auto confirmed = callbacks_.confirmed;
  confirmed();
}

// It confirms the stream too: gRPC's threads may overtake each other.
void ReducerAttendance::Noticed(const v1::Notice& notice) {
  const std::weak_ptr<char> alive = alive_;
  Confirmed();
  if (alive.expired() || quiet_ || tie_.over()) return;
  const auto noticed = callbacks_.noticed;
  noticed(notice);
}

void ReducerAttendance::Report(v1::MemberReport* report) const {
  const ResidentMemory memory = ReadResidentMemory();
  report->set_resident_bytes(memory.bytes);
  report->set_peak_resident_bytes(memory.peak_bytes);
  report->set_memory_bound_bytes(memory_bound_bytes_);
  report->set_memory_limit_bytes(options_.joined.max_memory_bytes());
}

void ReducerAttendance::Beat() {
  v1::Beat beat;
  beat.set_epoch(options_.welcome.epoch());
  beat.set_node(options_.welcome.node());
  beat.set_incarnation(options_.joined.incarnation());
  Report(beat.mutable_report());
  link_->Beat(beat);
}

void ReducerAttendance::BeatOn() {
  After(Seconds(options_.welcome.heartbeat_seconds()), [this] {
    Beat();
    BeatOn();
  });
}

void ReducerAttendance::Reattach() {
  if (!std::exchange(looking_, true)) After(Seconds(kLookSeconds), [this] { Look(); });
  After(tie_.Pause(), [this] { Ask(); });
}

void ReducerAttendance::Ask() {
  if (quiet_ || !tie_.lost()) return;
  link_ = std::make_unique<ControlLink>(options_.coordinator, options_.access, options_.silence);
  v1::ReattachRequest request;
  request.set_epoch(options_.welcome.epoch());
  request.set_node(options_.welcome.node());
  request.set_incarnation(options_.joined.incarnation());
  request.set_round(options_.welcome.base_step());
  *request.mutable_joined() = options_.joined;
  link_->Reattach(request, [this](const Status& status) {
    Later([this, status] {
      if (!quiet_) Follow(tie_.Answered(status), true);
    });
  });
}

void ReducerAttendance::Look() {
  if (quiet_) return;
  const Act act = tie_.Look(link_->connected(), Now());
  looking_ = tie_.lost();
  if (looking_) After(Seconds(kLookSeconds), [this] { Look(); });
  Follow(act, false);
}

void ReducerAttendance::Leave(bool failed, const std::string& reason) {
  v1::LeaveRequest leave;
  leave.set_epoch(options_.welcome.epoch());
  leave.set_node(options_.welcome.node());
  leave.set_incarnation(options_.joined.incarnation());
  leave.set_failed(failed);
  leave.set_reason(reason);
  Report(leave.mutable_report());
  if (!tie_.lost()) return link_->Leave(leave, Seconds(kLeaveSeconds));
  leave_ = std::move(leave);
}

}  // namespace ringwood
