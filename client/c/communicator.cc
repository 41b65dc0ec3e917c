// The C interface: communicators, and their collectives in the background.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "client/c/handle.h"
#include "include/ringwood_communicator.h"

using ringwood::CollectiveCall;
using ringwood::Invalid;
using ringwood::Refused;
using ringwood::Status;
using ringwood::StatusOr;
using ringwood::c::Bytes;
using ringwood::c::CheckHandle;
using ringwood::c::Read;
using ringwood::c::Run;
using ringwood::c::Visit;

struct ringwood_communicator {
  ringwood_session* session;
  std::shared_ptr<ringwood::Communicator> impl;
};

struct ringwood_work {
  ringwood_session* session;
  std::shared_ptr<ringwood::Communicator> impl;
  std::shared_ptr<ringwood::Communicator::Work> work;
};

namespace {

constexpr double kLongestWorkWait = 365 * 86400.0;

StatusOr<CollectiveCall> CallOf(const ringwood_collective_call& given, int world) {
  const auto type = static_cast<ringwood::DataType>(given.type);
  const size_t size = given.type > 0 && given.type < 256 ? ringwood::SizeOf(type) : 0;
  if (size == 0) return Invalid(absl::StrFormat("there is no element type %d", given.type));
  if (given.collective < RINGWOOD_ALL_REDUCE || given.collective > RINGWOOD_ALL_TO_ALL) {
    return Invalid(absl::StrFormat("there is no collective %d", given.collective));
  }
  if (std::max(given.input_elements, given.output_elements) > UINT64_MAX / size) {
    return Invalid("more elements than memory can have");
  }
  CollectiveCall call;
  call.verb = static_cast<ringwood::CollectiveVerb>(given.collective);
  call.type = type;
  call.root = given.root;
  call.about = given.about;
  RW_ASSIGN_OR_RETURN(call.op, ringwood::c::ReduceOf(given.op));
  RW_ASSIGN_OR_RETURN(call.input,
                      Bytes(const_cast<void*>(given.input), given.input_elements * size));
  RW_ASSIGN_OR_RETURN(call.output, Bytes(given.output, given.output_elements * size));
  if (given.shares != nullptr) call.shares.assign(given.shares, given.shares + world);
  if (given.receives != nullptr) call.receives.assign(given.receives, given.receives + world);
  return call;
}

}  // namespace

extern "C" {

int ringwood_communicator_make(ringwood_session* session, const int* ranks, size_t count,
                               uint32_t number, ringwood_communicator** communicator) {
  if (const int code = CheckHandle(session); code != RINGWOOD_OK) return code;
  const Visit visit(session);
  return Run([&]() -> Status {
    if (communicator == nullptr || ranks == nullptr)
      return Invalid("the communicator or its ranks are NULL");
    *communicator = nullptr;
    if (visit.session() == nullptr) return Refused(ringwood::c::kClosed);
    const int world = visit.session()->world();
    if (count < 1 || count > static_cast<size_t>(world)) {
      return Invalid(absl::StrFormat("a communicator of %d ranks in a world of %d", count, world));
    }
    RW_ASSIGN_OR_RETURN(auto made, visit.session()->MakeCommunicator(
                                       std::vector<int>(ranks, ranks + count), number));
    *communicator = new ringwood_communicator{session, std::move(made)};
    return ringwood::OkStatus();
  });
}

void ringwood_communicator_free(ringwood_communicator* communicator) { delete communicator; }

int ringwood_start(ringwood_communicator* communicator, const ringwood_collective_call* call,
                   ringwood_work** work) {
  if (const int code = CheckHandle(communicator ? communicator->session : nullptr);
      code != RINGWOOD_OK) {
    return code;
  }
  const Visit visit(communicator->session);
  return Run([&]() -> Status {
    if (work == nullptr) return Invalid("the place for the work is NULL");
    *work = nullptr;
    if (visit.session() == nullptr) return Refused(ringwood::c::kClosed);
    RW_ASSIGN_OR_RETURN(const ringwood_collective_call given,
                        Read(call, "ringwood_collective_call"));
    RW_ASSIGN_OR_RETURN(const CollectiveCall read, CallOf(given, communicator->impl->world()));
    RW_ASSIGN_OR_RETURN(auto started, communicator->impl->Start(read));
    *work = new ringwood_work{communicator->session, communicator->impl, std::move(started)};
    return ringwood::OkStatus();
  });
}

int ringwood_done(ringwood_work* work) {
  const bool here = work != nullptr && work->session->owner == getpid();
  return !here || work->impl->Outcome(work->work.get()).has_value() ? 1 : 0;
}

int ringwood_wait(ringwood_work* work, double seconds) {
  if (const int code = CheckHandle(work ? work->session : nullptr); code != RINGWOOD_OK) {
    return code;
  }
  const Visit visit(work->session);
  return Run([&]() -> Status {
    if (visit.session() == nullptr) {
      return work->impl->Outcome(work->work.get()).value_or(Refused(ringwood::c::kClosed));
    }
    if (std::isnan(seconds)) return Invalid("the seconds to wait are no number");
    const double limit = std::clamp(seconds, 0.0, kLongestWorkWait);
    RW_RETURN_IF_ERROR(work->impl->Wait(work->work.get(), ringwood::Seconds(limit)));
    visit.session()->TookPart();
    return ringwood::OkStatus();
  });
}

void ringwood_work_free(ringwood_work* work) { delete work; }

}  // extern "C"
