#include "plan/strategy/asc.h"

#include <algorithm>
#include <limits>

namespace ringwood {
namespace {

struct Message {
  size_t run;
  double startup_left;
  double transfer_left;
};

// Advances the one or two active messages until one of them ends or `until`.
class SharedNic {
 public:
  SharedNic(double penalty, Grouping* grouping) : slow_(1 + penalty), grouping_(grouping) {}

  double now() const { return now_; }
  size_t active() const { return active_.size(); }
  void Begin(size_t run, double startup, double transfer) {
    (*grouping_)[run].start_seconds = now_;
    active_.push_back({run, startup, transfer});
  }

  void Advance(double until) {
    while (now_ < until && !active_.empty()) {
      const bool contended =
          active_.size() == 2 && active_[0].startup_left <= 0 && active_[1].startup_left <= 0;
      const double rate = contended ? 1 / slow_ : 1;
      double step = until - now_;
      for (const Message& message : active_) {
        step = std::min(
            step, message.startup_left > 0 ? message.startup_left : message.transfer_left / rate);
      }
      now_ += step;
      if (Elapse(step, rate)) return;
    }
    if (active_.empty()) now_ = std::max(now_, until);
  }

 private:
  bool Elapse(double step, double rate) {
    constexpr double kNothing = 1e-15;  // seconds; below it a phase is over
    for (Message& message : active_) {
      double& left = message.startup_left > 0 ? message.startup_left : message.transfer_left;
      left -= &left == &message.startup_left ? step : step * rate;
      if (left < kNothing) left = 0;
    }
    const size_t before = active_.size();
    std::erase_if(active_, [this](const Message& message) {
      const bool over = message.startup_left <= 0 && message.transfer_left <= 0;
      if (over) (*grouping_)[message.run].end_seconds = now_;
      return over;
    });
    return active_.size() != before;
  }

  double slow_;
  Grouping* grouping_;
  double now_ = 0;
  std::vector<Message> active_;
};

}  // namespace

Grouping PlayAsc(const LaneInput& lane, double penalty, const std::vector<size_t>& lasts) {
  constexpr double kForever = std::numeric_limits<double>::max();
  Grouping grouping(lasts.size());
  SharedNic nic(penalty, &grouping);
  const double startup = lane.cost.Startup();
  size_t first = 0;
  for (size_t g = 0; g < lasts.size(); ++g) {
    grouping[g].first = first;
    grouping[g].last = lasts[g];
    double bytes = 0;
    for (size_t j = first; j <= lasts[g]; ++j) bytes += static_cast<double>(lane.bytes[j]);
    first = lasts[g] + 1;
    while (nic.now() < lane.ready_seconds[lasts[g]]) nic.Advance(lane.ready_seconds[lasts[g]]);
    while (nic.active() == 2) nic.Advance(kForever);
    nic.Begin(g, startup, lane.cost.Seconds(bytes) - startup);
  }
  while (nic.active() > 0) nic.Advance(kForever);
  return grouping;
}

namespace {

// When a slot is free for the group after these: the second largest end.
double SlotFree(const Grouping& grouping) {
  double last = 0;
  double second = 0;
  for (const Run& run : grouping) {
    if (run.end_seconds > last) {
      second = last;
      last = run.end_seconds;
    } else {
      second = std::max(second, run.end_seconds);
    }
  }
  return second;
}

}  // namespace

std::vector<size_t> Asc(const LaneInput& lane, double penalty) {
  std::vector<size_t> lasts;
  double free = 0;
  double bytes = 0;
  for (size_t j = 0, first = 0; j < lane.bytes.size(); ++j) {
    if (j > first) {
      const double start = std::max(free, lane.ready_seconds[j - 1]);
      const bool merge = lane.ready_seconds[j] - start < lane.cost.Startup();
      if (!merge || !Allowed(lane, first, j, bytes + static_cast<double>(lane.bytes[j]))) {
        lasts.push_back(j - 1);
        free = SlotFree(PlayAsc(lane, penalty, lasts));
        first = j;
        bytes = 0;
      }
    }
    bytes += static_cast<double>(lane.bytes[j]);
  }
  if (!lane.bytes.empty()) lasts.push_back(lane.bytes.size() - 1);
  return lasts;
}

}  // namespace ringwood
