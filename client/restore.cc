#include "client/restore.h"

#include "absl/strings/str_format.h"

namespace ringwood {

StatusOr<uint64_t> Restore::Bytes(const std::string& name, bool shared) {
  if (!manifest_) {
    RW_ASSIGN_OR_RETURN(manifest_, store_->Manifest(step_));
  }
  const v1::Scope scope = shared ? v1::SCOPE_SHARED : v1::SCOPE_OWN;
  std::string known;
  for (const v1::StoredItem& item : manifest_->items()) {
    if (item.scope() != scope) continue;
    if (!shared && item.rank() != static_cast<uint32_t>(rank_)) continue;
    if (item.name() == name) return item.bytes();
    known += (known.empty() ? "" : ", ") + item.name();
  }
  return NotFound(absl::StrFormat(
      "the checkpoint of step %d has no %s item '%s' for rank %d; it has: %s", step_,
      shared ? "shared" : "own", name, rank_, known.empty() ? "none" : known));
}

Status Restore::Read(const std::string& name, bool shared, std::span<std::byte> out) {
  RW_ASSIGN_OR_RETURN(const uint64_t bytes, Bytes(name, shared));
  if (bytes != out.size()) {
    return Invalid(
        absl::StrFormat("the item '%s' of the checkpoint of step %d has %d bytes, not %d", name,
                        step_, bytes, out.size()));
  }
  return store_->Load(step_, static_cast<uint32_t>(rank_), name, shared, out);
}

Status Restore::ReadIfThere(const std::string& name, bool shared, std::span<std::byte> out) {
  const Status bytes = Bytes(name, shared).status();
  if (bytes.code() == StatusCode::kNotFound) return OkStatus();
  RW_RETURN_IF_ERROR(bytes);
  return Read(name, shared, out);
}

}  // namespace ringwood
