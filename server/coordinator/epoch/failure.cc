#include "server/coordinator/epoch/failure.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace ringwood {
namespace {

// Of what a notice says of a failure: a traceback fits. Statuses carry less of it (ToGrpc).
constexpr size_t kMaxReasonBytes = 16 << 10;

// Whether the members can go on without, or again with, whom is to blame.
bool AnotherEpochHelps(const Blame& blame) {
  return !blame.lasting &&
         (blame.code == StatusCode::kUnavailable || blame.code == StatusCode::kAborted ||
          blame.code == StatusCode::kDeadlineExceeded);
}

}  // namespace

v1::Failure FailureOf(const Blame& blame, const Roster& roster, uint64_t epoch, uint64_t step,
                      bool elastic) {
  v1::Failure failure;
  failure.set_node(blame.node);
  if (blame.node < roster.size()) failure.set_who(roster.Label(blame.node));
  failure.set_epoch(epoch);
  failure.set_step(step);
  failure.set_reason(Printable(blame.reason, kMaxReasonBytes));
  failure.set_code(static_cast<int32_t>(blame.code));
  failure.set_recovers(elastic && AnotherEpochHelps(blame));
  return failure;
}

v1::Failure RegroupingAfter(uint64_t step, const std::vector<uint32_t>& leaving,
                            const Roster& roster, uint64_t epoch) {
  v1::Failure failure;
  failure.set_node(roster.size());
  failure.set_epoch(epoch);
  failure.set_step(step + 1);
  std::vector<std::string> who;
  for (const uint32_t rank : leaving) who.push_back(roster.Label(rank));
  failure.set_reason(who.empty() ? "a process waits to take part: join again"
                                 : absl::StrJoin(who, ", ") + " left: join again");
  failure.set_code(static_cast<int32_t>(StatusCode::kAborted));
  failure.set_recovers(true);
  return failure;
}

Status StatusOf(const v1::Failure& failure) {
  return Status(static_cast<StatusCode>(failure.code()),
                absl::StrFormat("%s failed at step %d of epoch %d: %s",
                                failure.who().empty() ? "the job" : failure.who(), failure.step(),
                                failure.epoch(), failure.reason()));
}

}  // namespace ringwood
