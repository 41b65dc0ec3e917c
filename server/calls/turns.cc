#include "server/calls/turns.h"

#include <utility>

namespace ringwood {

void Turns::After(Duration delay, std::function<void()> go) {
  if (delay <= Duration::zero()) return go();
  uint64_t id = 0;  // of one that goes at once
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_) waiting_.emplace(id = ++last_, std::move(go));
  }
  if (id == 0) return go();
  const auto wait = [this, id, delay] { loop_.After(delay, [this, id] { Go(id); }); };
  if (!loop_.Post(wait)) Go(id);
}

void Turns::Go(uint64_t id) {
  std::function<void()> go;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;  // closed meanwhile
    go = std::move(found->second);
    waiting_.erase(found);
  }
  go();
}

void Turns::Close() {
  std::map<uint64_t, std::function<void()>> waiting;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    waiting.swap(waiting_);
  }
  for (const auto& [id, go] : waiting) go();
}

}  // namespace ringwood
