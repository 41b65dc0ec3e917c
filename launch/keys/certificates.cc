#include "launch/keys/certificates.h"

#include <algorithm>
#include <utility>

namespace ringwood {
namespace {

constexpr int64_t kTryAgainSeconds = 60;

Validity ValidityFrom(int64_t now) {
  return {now - Certificates::kClockSeconds, now + Certificates::kLifeSeconds};
}

}  // namespace

StatusOr<Leaf> Certificates::Issue(int member, IdentityRole role, int number, int64_t now) {
  const IdentityName name{job_, role, number};
  RW_ASSIGN_OR_RETURN(const Leaf leaf, authority_->Issue(name, ValidityFrom(now)));
  const int64_t due = RenewalTime(ValidityFrom(now));
  issued_[member] = {name, leaf.key, due};
  next_due_ = next_due_ == 0 ? due : std::min(next_due_, due);
  return leaf;
}

void Certificates::Renew(
    int64_t now, const std::function<void(int member, const std::string& certificate)>& hand_over) {
  if (next_due_ == 0 || now < next_due_) return;
  next_due_ = 0;
  for (auto& [member, issued] : issued_) {
    if (now >= issued.due) {
      const auto renewed = authority_->Renew(issued.name, issued.key, ValidityFrom(now));
      issued.due = renewed.ok() ? RenewalTime(ValidityFrom(now)) : now + kTryAgainSeconds;
      if (renewed.ok()) hand_over(member, *renewed);
    }
    next_due_ = next_due_ == 0 ? issued.due : std::min(next_due_, issued.due);
  }
}

}  // namespace ringwood
