#include "client/checkpoint/restore.h"

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kMaxNames = 1000;  // characters of a list of items in an error

}  // namespace

StatusOr<const Restore::Sizes*> Restore::SizesOf(int rank) {
  const auto known = per_rank_.find(rank);
  if (known != per_rank_.end()) return &known->second;
  RW_ASSIGN_OR_RETURN(const auto items, store_->Items(from_, static_cast<uint32_t>(rank)));
  Sizes& own = per_rank_[rank];
  for (const CheckpointItem& item : items) (item.shared ? shared_ : own)[item.name] = item.bytes;
  return &own;
}

StatusOr<uint64_t> Restore::Bytes(const std::string& name, bool shared) {
  RW_ASSIGN_OR_RETURN(const Sizes* const own, SizesOf(rank_));
  const Sizes& sizes = shared ? shared_ : *own;
  if (const auto found = sizes.find(name); found != sizes.end()) return found->second;
  std::string known;
  for (const auto& [other, bytes] : sizes) {
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
  return Load(bytes, rank_, name, shared, out);
}

StatusOr<bool> Restore::HasRank(int rank) {
  RW_ASSIGN_OR_RETURN(const Sizes* const own, SizesOf(rank));
  return !own->empty();
}

StatusOr<bool> Restore::RankHas(int rank, const std::string& name) {
  RW_ASSIGN_OR_RETURN(const Sizes* const own, SizesOf(rank));
  return own->contains(name);
}

Status Restore::ReadOfRank(int rank, const std::string& name, std::span<std::byte> out) {
  RW_ASSIGN_OR_RETURN(const Sizes* const own, SizesOf(rank));
  return Load(own->at(name), rank, name, false, out);
}

Status Restore::Load(uint64_t bytes, int rank, const std::string& name, bool shared,
                     std::span<std::byte> out) {
  if (bytes != out.size()) {
    return Invalid(
        absl::StrFormat("the item '%s' of the checkpoint of step %d has %d bytes, not %d: it had "
                        "another shape or element type. Restore it into what it was saved from, "
                        "or begin a new job, without --resume",
                        name, step(), bytes, out.size()));
  }
  return store_->Load(from_, static_cast<uint32_t>(rank), name, shared, out);
}

}  // namespace ringwood
