#include "client/updates/update_reader.h"

#include <algorithm>
#include <span>
#include <utility>

namespace ringwood {
namespace {

constexpr double kFetchSeconds = 600;  // some rounds of gigabytes from a slow disk

}  // namespace

// The first fetch does not know how large rounds are: it is of one.
Status UpdateReader::Fetch(UpdateClient* client, uint64_t after, uint64_t last) {
  const uint64_t count = largest_ == 0 ? 1 : std::clamp<uint64_t>(kBytes / largest_, 1, kRounds);
  const auto take = [this](uint64_t step, std::string* body) {
    largest_ = std::max<uint64_t>(largest_, body->size());
    rounds_.push_back({step, std::move(*body)});
    *body = {};
    if (spare_.empty()) return OkStatus();
    *body = std::move(spare_.back());
    spare_.pop_back();
    return OkStatus();
  };
  const Status fetched =
      client->Replay(after, std::min(last, after + count), take, Seconds(kFetchSeconds));
  if (!fetched.ok()) rounds_.clear();
  return fetched;
}

StatusOr<RoundFacts> UpdateReader::Next(const TensorsById& tensors) {
  Fetched& first = rounds_.front();
  StatusOr<RoundFacts> round = ReadRound(first.step, std::as_bytes(std::span(first.body)), tensors);
  if (!round.ok()) return round;
  spare_.push_back(std::move(first.body));
  rounds_.pop_front();
  return round;
}

}  // namespace ringwood
