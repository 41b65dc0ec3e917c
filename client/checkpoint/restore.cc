#include "client/checkpoint/restore.h"

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kMaxNames = 1000;  // characters of a list of items in an error

}  // namespace

StatusOr<const Restore::Sizes*> Restore::SizesOf(bool shared) {
  if (!fetched_) {
    RW_ASSIGN_OR_RETURN(const auto items, store_->Items(from_, static_cast<uint32_t>(rank_)));
    for (const CheckpointItem& item : items) {
      (item.shared ? shared_ : per_rank_)[item.name] = item.bytes;
    }
    fetched_ = true;
  }
  return shared ? &shared_ : &per_rank_;
}

StatusOr<uint64_t> Restore::Bytes(const std::string& name, bool shared) {
  RW_ASSIGN_OR_RETURN(const Sizes* sizes, SizesOf(shared));
  if (const auto found = sizes->find(name); found != sizes->end()) return found->second;
  std::string known;
  for (const auto& [other, bytes] : *sizes) {
    known += (known.empty() ? "" : ", ") + other;
    if (known.size() > kMaxNames) {
      known += ", ...";
      break;
    }
  }
  return NotFound(absl::StrFormat(
      "the checkpoint of step %d has no %s item '%s' for rank %d; it has: %s", step(),
      shared ? "shared" : "per-rank", name, rank_, known.empty() ? "none" : known));
}

Status Restore::Read(const std::string& name, bool shared, std::span<std::byte> out) {
  RW_ASSIGN_OR_RETURN(const uint64_t bytes, Bytes(name, shared));
  if (bytes != out.size()) {
    return Invalid(
        absl::StrFormat("the item '%s' of the checkpoint of step %d has %d bytes, not %d", name,
                        step(), bytes, out.size()));
  }
  return store_->Load(from_, static_cast<uint32_t>(rank_), name, shared, out);
}

Status Restore::ReadIfThere(const std::string& name, bool shared, std::span<std::byte> out) {
  RW_ASSIGN_OR_RETURN(const Sizes* sizes, SizesOf(shared));
  return sizes->contains(name) ? Read(name, shared, out) : OkStatus();
}

}  // namespace ringwood
