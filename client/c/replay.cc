// The C interface: the update log.
#include "client/c/handle.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::c::Bytes;
using ringwood::c::Peek;
using ringwood::c::With;
using ringwood::c::Write;

extern "C" {

uint64_t ringwood_replays(const ringwood_session* session) {
  return Peek(session, uint64_t{0}, [](auto& open) { return open.replays(); });
}

int ringwood_replay(ringwood_session* session, ringwood_step_result* result) {
  return With(session, [&](auto& open) -> Status {
    if (result != nullptr) {
      RW_RETURN_IF_ERROR(ringwood::c::CheckSize(result->size, "ringwood_step_result"));
    }
    RW_ASSIGN_OR_RETURN(session->replayed, open.Replay());
    const ringwood::RoundFacts& round = session->replayed;
    if (result == nullptr) return ringwood::OkStatus();
    ringwood_step_result value{};
    value.step = round.step;
    value.skipped = round.skipped;
    value.total_weight = round.total_weight;
    value.members = round.members.data();
    value.member_count = round.members.size();
    value.contributors = round.contributors.data();
    value.contributor_count = round.contributors.size();
    return Write(value, result, "ringwood_step_result");
  });
}

int ringwood_logs(const ringwood_session* session) {
  return Peek(session, 0, [](auto& open) { return open.logs() ? 1 : open.logged() ? 2 : 0; });
}

int ringwood_note(ringwood_session* session, const void* note, uint64_t bytes) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const auto data, Bytes(const_cast<void*>(note), bytes));
    return open.Note(std::string(reinterpret_cast<const char*>(data.data()), data.size()));
  });
}

int ringwood_replayed_note(ringwood_session* session, void* note, uint64_t capacity,
                           uint64_t* bytes) {
  return With(session, [&](auto&) -> Status {
    if (bytes == nullptr) return Invalid("the place for the size is NULL");
    const std::string& kept = session->replayed.note;
    *bytes = kept.size();
    if (note == nullptr) return ringwood::OkStatus();
    if (capacity < kept.size()) {
      return Invalid(
          absl::StrFormat("the note has %d bytes, the memory %d", kept.size(), capacity));
    }
    std::copy(kept.begin(), kept.end(), static_cast<char*>(note));
    return ringwood::OkStatus();
  });
}

}  // extern "C"
