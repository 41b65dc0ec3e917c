// A stripe that a test brings on one thread, in the steps that StripeIntake takes on several.
#pragma once

#include "server/store/service/stripe_collector.h"

namespace ringwood {

// An error is given to Keep, at once.
inline Status WriteChunk(StripeCollector::Incoming* stripe, const v1::SaveChunk& chunk) {
  const Status written = stripe->Write(chunk);
  return written.ok() ? written : stripe->Keep(written).status();
}

// Its bytes, when it is synced and kept.
inline StatusOr<uint64_t> KeepStripe(StripeCollector::Incoming* stripe) {
  return stripe->Keep(stripe->Sync());
}

}  // namespace ringwood
