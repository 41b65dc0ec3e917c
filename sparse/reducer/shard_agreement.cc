#include "sparse/reducer/shard_agreement.h"

#include "sparse/select.h"
#include "sparse/tree_schedule.h"

namespace ringwood {

static_assert(kHistogramSlot + GlobalCut::kLevels <= kSlotsOfRange);

ShardAgreement::ShardAgreement(const ReducerPart& part)
    : cut_(part.keep_of_all, part.shard, part.agreeing),
      keep_(part.keep),
      shard_(static_cast<size_t>(part.shard)),
      shards_(static_cast<size_t>(part.agreeing)) {}

uint32_t ShardAgreement::slot() const {
  return kHistogramSlot + static_cast<uint32_t>(cut_.level());
}

std::vector<std::byte> ShardAgreement::Count(const Entries& sum) {
  histograms_.assign(shards_, {});
  histograms_[shard_] = cut_.Count(sum.value);
  unheard_ = shards_ - 1;
  return GlobalCut::Pack(histograms_[shard_]);
}

Status ShardAgreement::Hear(size_t shard, std::span<const std::byte> histogram) {
  RW_ASSIGN_OR_RETURN(histograms_[shard], GlobalCut::Unpack(histogram));
  --unheard_;
  return OkStatus();
}

void ShardAgreement::Apply(Entries* sum) const {
  cut_.Apply(sum);
  KeepLargest(keep_, sum);
}

}  // namespace ringwood
