// What happens next in a simulated world: simulated time, the randomness of one seed, and the trace
// of a seed that failed. One thread, no clock.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/random.h"

namespace ringwood::simulation {

using Act = std::function<void()>;

class Agenda {
 public:
  Agenda(uint64_t seed, bool traced) : random_(seed), traced_(traced) {}

  void After(double seconds, Act act) {
    items_.push_back({now_ + Seconds(seconds), ++count_, std::move(act)});
    std::push_heap(items_.begin(), items_.end(), Later);
  }
  // Runs what is next; of two at one time the one that was entered first.
  void Step() {
    std::pop_heap(items_.begin(), items_.end(), Later);
    Item item = std::move(items_.back());
    items_.pop_back();
    now_ = item.at;
    item.act();
  }

  TimePoint now() const { return now_; }
  double seconds() const { return ToSeconds(now_.time_since_epoch()); }

  double Between(double low, double high) { return low + random_.Unit() * (high - low); }
  bool Chance(double probability) { return random_.Unit() < probability; }
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  uint64_t Name() { return random_.Next() | 1; }  // never 0

  template <typename... Parts>
  void Say(const absl::FormatSpec<Parts...>& format, const Parts&... parts) const {
    if (traced_) std::printf("%9.4f  %s\n", seconds(), absl::StrFormat(format, parts...).c_str());
  }
  bool traced() const { return traced_; }

 private:
  struct Item {
    TimePoint at;
    uint64_t number;
    Act act;
  };
  static bool Later(const Item& a, const Item& b) {
    return a.at != b.at ? a.at > b.at : a.number > b.number;
  }

  Random random_;
  const bool traced_;
  TimePoint now_{};
  uint64_t count_ = 0;
  std::vector<Item> items_;  // a heap
};

}  // namespace ringwood::simulation
