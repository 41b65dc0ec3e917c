#include "client/exchange/round_totals.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dense/all_reduce.h"

namespace ringwood {

RoundTotals::RoundTotals(const Place& place)
    : place_(place), own_(2 * place.world), all_(own_.size()) {}

// Everybody adds zeros to the entries of the others, so the sums are exact.
void RoundTotals::Start(Transport* transport, uint64_t round, double weight, bool non_finite,
                        std::function<void(Status)> done) {
  own_[place_.rank] = weight;
  own_[place_.world + place_.rank] = non_finite ? 1 : 0;
  AllReduceRequest request{};
  request.place = place_;
  request.name = {Lane::kTotals, round};
  request.type = DataType::kFloat64;
  request.input = std::as_bytes(std::span(std::as_const(own_)));
  request.output = std::as_writable_bytes(std::span(all_));
  StartAllReduce(transport, request, [done = std::move(done)](StatusOr<AllReduceResult> result) {
    done(result.status());
  });
}

Totals RoundTotals::totals() const {
  Totals totals;
  for (int rank = 0; rank < place_.world; ++rank) {
    totals.weight += all_[rank];
    if (all_[rank] > 0) totals.contributors.push_back(rank);
  }
  const bool non_finite =
      std::any_of(all_.begin() + place_.world, all_.end(), [](double flag) { return flag != 0; });
  totals.skipped = non_finite || totals.weight == 0;
  return totals;
}

}  // namespace ringwood
