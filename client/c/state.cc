// The C interface: the state of an elastic job.
#include "client/c/handle.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::c::Bytes;
using ringwood::c::Peek;
using ringwood::c::Text;
using ringwood::c::With;

extern "C" {

int ringwood_state_item(ringwood_session* session, const char* name, void* data, uint64_t bytes) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const auto span, Bytes(data, bytes));
    return open.RegisterState(Text(name), span);
  });
}

int ringwood_receiving(const ringwood_session* session) {
  return Peek(session, 0, [](auto& open) { return open.receiving() ? 1 : 0; });
}

int ringwood_state_on_request(ringwood_session* session, int on) {
  return With(session, [&](auto& open) {
    open.GiveStateOnRequest(on != 0);
    return ringwood::OkStatus();
  });
}

int ringwood_state_wanted(const ringwood_session* session) {
  return Peek(session, 0, [](auto& open) { return open.state_wanted() ? 1 : 0; });
}

int ringwood_received_bytes(ringwood_session* session, const char* name, uint64_t* bytes) {
  return With(session, [&](auto& open) -> Status {
    if (bytes == nullptr) return Invalid("the place for the size is NULL");
    RW_ASSIGN_OR_RETURN(const auto item, open.ReceivedState(Text(name)));
    *bytes = item.size();
    return ringwood::OkStatus();
  });
}

int ringwood_received(ringwood_session* session, const char* name, void* out, uint64_t bytes) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const auto item, open.ReceivedState(Text(name)));
    RW_ASSIGN_OR_RETURN(const auto span, Bytes(out, bytes));
    if (span.size() != item.size()) {
      return Invalid(absl::StrFormat("the state item '%s' has %d bytes, the memory %d", Text(name),
                                     item.size(), span.size()));
    }
    std::ranges::copy(item, span.begin());
    return ringwood::OkStatus();
  });
}

}  // extern "C"
