#include "transport/grpc/assembly.h"

#include <cstring>
#include <utility>

namespace ringwood {
namespace {

class AssemblyPayload : public IncomingPayload {
 public:
  AssemblyPayload(std::shared_ptr<Assembly> assembly, uint64_t bytes)
      : assembly_(std::move(assembly)), bytes_(bytes) {}
  ~AssemblyPayload() override { assembly_->Drop(); }
  uint64_t HeldBytes() const override { return bytes_; }
  void Fetch(std::span<std::byte> into, std::function<void(Status)> done) override {
    assembly_->Fetch(into, std::move(done));
  }

 private:
  const std::shared_ptr<Assembly> assembly_;
  const uint64_t bytes_;
};

}  // namespace

bool Assembly::Add(std::span<const std::byte> piece) {
  if (piece.size() > bytes_ - arrived_) return false;
  if (place_ == Place::kOwn && own_.size() < bytes_) own_ = Buffer<std::byte>(bytes_);
  std::byte* const to = place_ == Place::kOwn     ? own_.data()
                        : place_ == Place::kAsked ? into_.data()
                                                  : nullptr;
  if (to != nullptr && !piece.empty()) std::memcpy(to + arrived_, piece.data(), piece.size());
  arrived_ += piece.size();
  if (complete() && done_ != nullptr) std::exchange(done_, nullptr)(OkStatus());
  return true;
}

void Assembly::Fail(const Status& reason) {
  failed_ = reason;
  if (done_ != nullptr) std::exchange(done_, nullptr)(reason);
}

void Assembly::Fetch(std::span<std::byte> into, std::function<void(Status)> done) {
  if (!failed_.ok()) return done(failed_);
  if (own_.size() != 0 && arrived_ != 0) std::memcpy(into.data(), own_.data(), arrived_);
  own_ = Buffer<std::byte>();
  into_ = into;
  place_ = Place::kAsked;
  done_ = std::move(done);
  if (complete()) std::exchange(done_, nullptr)(OkStatus());
}

void Assembly::Drop() {
  place_ = Place::kDropped;
  own_ = Buffer<std::byte>();
  done_ = nullptr;
}

std::unique_ptr<IncomingPayload> MakeAssemblyPayload(std::shared_ptr<Assembly> assembly,
                                                     uint64_t bytes) {
  return std::make_unique<AssemblyPayload>(std::move(assembly), bytes);
}

}  // namespace ringwood
