#include "server/store/service/stripe_intake.h"

#include <utility>

namespace ringwood {
namespace {

Status StoreStops() { return Unavailable("the store is stopping"); }

}  // namespace

StripeIntake::Stream* StripeIntake::Refuse(const Status& why) {
  return new Stream([why](Stream* stream, std::unique_ptr<v1::SaveChunk>) { stream->End(why); });
}

StripeIntake::Stream* StripeIntake::Open(v1::SaveReceipt* receipt) {
  const auto stripe = std::make_shared<Saving>(met_);
  stripe->receipt = receipt;
  return new Stream([this, stripe](Stream* stream, std::unique_ptr<v1::SaveChunk> brought) {
    stripe->stream = stream;
    const Chunk chunk = std::move(brought);
    if (chunk != nullptr && stripe->incoming != nullptr) return Write(stripe, chunk);
    if (!loop_->PostReserved([this, stripe, chunk] { Begin(stripe, chunk); })) {
      stream->End(StoreStops());
    }
  });
}

// `first`: null if the stream ended, or broke, before the last chunk.
void StripeIntake::Begin(const Stripe& stripe, const Chunk& first) {
  Status failed = Aborted("the stripe ended without its last chunk");
  if (first != nullptr && collector_->IsTooEarly(*first)) {
    stripe->receipt->set_not_begun(true);
    return stripe->stream->End(OkStatus());
  }
  if (first != nullptr) {
    auto begun = collector_->Begin(*first);
    failed = begun.status();
    if (begun.ok()) stripe->incoming = *std::move(begun);
  } else {
    stripe->incoming.reset();
  }
  changed_();
  if (!failed.ok()) return stripe->stream->End(failed);
  stripe->disk = disks_->Next();
  Write(stripe, first);
}

void StripeIntake::Write(const Stripe& stripe, const Chunk& chunk) {
  const bool posted = stripe->disk->Post([this, stripe, chunk] {
    Status written = stripe->memory.Fetch(chunk.get());
    if (written.ok()) written = stripe->incoming->Write(*chunk);
    stripe->memory.Release(chunk.get());
    if (written.ok() && !chunk->last()) return stripe->stream->Next();
    if (written.ok()) written = stripe->incoming->Sync();
    loop_->PostReserved([this, stripe, written] { End(stripe, written); });
  });
  if (posted) return;
  loop_->PostReserved([this, stripe] { End(stripe, Exhausted("too many chunks at once")); });
}

void StripeIntake::End(const Stripe& stripe, const Status& so_far) {
  const StatusOr<uint64_t> bytes = stripe->incoming->Keep(so_far);
  stripe->incoming.reset();
  changed_();
  if (bytes.ok()) stripe->receipt->set_bytes(*bytes);
  stripe->stream->End(bytes.status());
}

}  // namespace ringwood
