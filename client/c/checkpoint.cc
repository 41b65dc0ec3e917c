// The C interface: checkpoints and what they restore.
#include <utility>

#include "base/tensor_type.h"
#include "client/c/handle.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::StatusOr;
using ringwood::c::Bytes;
using ringwood::c::Look;
using ringwood::c::Read;
using ringwood::c::Text;
using ringwood::c::With;
using ringwood::c::Write;

namespace {

StatusOr<bool> IsShared(int scope) {
  if (scope == RINGWOOD_SHARED || scope == RINGWOOD_PER_RANK) return scope == RINGWOOD_SHARED;
  return Invalid(
      absl::StrFormat("scope %d is neither RINGWOOD_SHARED nor RINGWOOD_PER_RANK", scope));
}

StatusOr<ringwood::TensorType> TypeOf(const ringwood_item& item) {
  ringwood::TensorType type{Text(item.dtype), {}};
  if (item.dimensions > ringwood::kMaxDimensions) {
    return Invalid(absl::StrFormat("the checkpoint item '%s' has %d dimensions, %d are possible",
                                   Text(item.name), item.dimensions, ringwood::kMaxDimensions));
  }
  if (item.dimensions == 0) return type;
  if (item.shape == nullptr) return Invalid("the shape of an item is NULL");
  type.shape.assign(item.shape, item.shape + item.dimensions);
  return type;
}

}  // namespace

extern "C" {

int ringwood_checkpoint(ringwood_session* session, const ringwood_item* items, size_t count) {
  return With(session, [&](auto& open) -> Status {
    if (items == nullptr && count != 0) return Invalid("the items are NULL");
    std::vector<ringwood::Item> list;
    const char* at = reinterpret_cast<const char*>(items);
    for (size_t i = 0; i < count; ++i) {
      const auto* given = reinterpret_cast<const ringwood_item*>(at);
      RW_ASSIGN_OR_RETURN(const ringwood_item item, Read(given, "ringwood_item"));
      RW_ASSIGN_OR_RETURN(const bool shared, IsShared(item.scope));
      RW_ASSIGN_OR_RETURN(const auto data, Bytes(const_cast<void*>(item.data), item.bytes));
      RW_ASSIGN_OR_RETURN(auto type, TypeOf(item));
      list.push_back({Text(item.name), shared, data, std::move(type)});
      at += given->size;  // the caller's version of the struct
    }
    return open.Checkpoint(list);
  });
}

int ringwood_checkpoint_wait(ringwood_session* session) {
  return With(session, [](auto& open) { return open.CheckpointWait(); });
}

int ringwood_checkpoint_state(const ringwood_session* session,
                              ringwood_checkpoint_progress* progress) {
  return Look(session, [&](auto& open) -> Status {
    if (progress == nullptr) return Invalid("the place for the progress is NULL");
    const ringwood::CheckpointProgress now = open.checkpoint_progress();
    const ringwood_checkpoint_progress value{sizeof value, now.step,      now.under_way ? 1 : 0,
                                             now.bytes,    now.sent,      now.arena_bytes,
                                             now.seconds,  now.completed, now.failed};
    return Write(value, progress, "ringwood_checkpoint_progress");
  });
}

int ringwood_restore_bytes(ringwood_session* session, const char* name, int scope,
                           uint64_t* bytes) {
  return With(session, [&](auto& open) -> Status {
    if (bytes == nullptr) return Invalid("the place for the size is NULL");
    RW_ASSIGN_OR_RETURN(const bool shared, IsShared(scope));
    RW_ASSIGN_OR_RETURN(*bytes, open.RestoreBytes(Text(name), shared));
    return ringwood::OkStatus();
  });
}

int ringwood_restore(ringwood_session* session, const char* name, int scope, void* out,
                     uint64_t bytes) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const bool shared, IsShared(scope));
    RW_ASSIGN_OR_RETURN(const auto span, Bytes(out, bytes));
    return open.RestoreItem(Text(name), shared, span);
  });
}

}  // extern "C"
