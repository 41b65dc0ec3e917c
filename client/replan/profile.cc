#include "client/replan/profile.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/median.h"

namespace ringwood {
namespace {

double MedianOf(const std::deque<Measured>& window, double Measured::*entry) {
  std::vector<double> column;
  for (const Measured& round : window) column.push_back(round.*entry);
  return Median(std::move(column));
}

// Entry by entry.
std::vector<double> MedianOf(const std::deque<Measured>& window,
                             std::vector<double> Measured::*entries) {
  std::vector<double> medians;
  for (size_t i = 0; i < (window.front().*entries).size(); ++i) {
    std::vector<double> column;
    for (const Measured& round : window) column.push_back((round.*entries)[i]);
    medians.push_back(Median(std::move(column)));
  }
  return medians;
}

}  // namespace

std::vector<double> SharedSeconds(const std::vector<TimePoint>& started,
                                  const std::vector<TimePoint>& ended) {
  struct Edge {
    TimePoint at;
    bool start;
    size_t interval;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < started.size(); ++i) {
    edges.push_back({started[i], true, i});
    edges.push_back({std::max(started[i], ended[i]), false, i});
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::vector<double> seconds(started.size(), 0.0);
  std::set<size_t> open;
  for (size_t e = 0; e < edges.size(); ++e) {
    if (e > 0 && !open.empty()) {
      const double share =
          ToSeconds(edges[e].at - edges[e - 1].at) / static_cast<double>(open.size());
      for (size_t i : open) seconds[i] += share;
    }
    if (edges[e].start) {
      open.insert(edges[e].interval);
    } else {
      open.erase(edges[e].interval);
    }
  }
  return seconds;
}

void Profile::PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table, uint64_t) {
  absl::MutexLock lock(&mutex_);
  now_.ready.assign(table.size(), TimePoint());
  for (auto* times : {&now_.packing, &now_.packed, &now_.started, &now_.ended}) {
    times->assign(plan.groups.size(), TimePoint());
  }
  delays_.assign(plan.groups.size(), 0);
  window_.clear();
  warm_ = false;
}

void Profile::TakeDelays(std::vector<double> seconds) {
  absl::MutexLock lock(&mutex_);
  if (seconds.size() == delays_.size()) delays_ = std::move(seconds);
}

void Profile::RoundBegun(uint64_t, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  now_.begun = at;
}

void Profile::GradientReady(uint64_t, uint32_t tensor, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  now_.ready[tensor] = at;
}

void Profile::SelectionBegun(uint64_t, uint32_t group, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  now_.packing[group] = at;
}

void Profile::Selected(uint64_t, uint32_t group, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  now_.packed[group] = at;
}

void Profile::GroupStarted(uint64_t, uint32_t group, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  now_.started[group] = at;
}

void Profile::GroupEnded(uint64_t, uint32_t group, uint64_t, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  now_.ended[group] = at;
}

void Profile::Applied(uint64_t, TimePoint at) {
  absl::MutexLock lock(&mutex_);
  if (!std::exchange(warm_, true)) return;
  Measured measured;
  for (const TimePoint ready : now_.ready) {
    measured.ready_seconds.push_back(std::max(0.0, ToSeconds(ready - now_.begun)));
  }
  TimePoint last = now_.begun;
  for (size_t g = 0; g < now_.ended.size(); ++g) {
    measured.pack_seconds.push_back(ToSeconds(now_.packed[g] - now_.packing[g]));
    last = std::max(last, now_.ended[g]);
  }
  std::vector<TimePoint> sent = now_.started;  // as if what it waits for came first
  for (size_t g = 0; g < sent.size(); ++g) {
    sent[g] = std::min(sent[g] + Seconds(delays_[g]), std::max(sent[g], now_.ended[g]));
  }
  measured.group_seconds = SharedSeconds(sent, now_.ended);
  measured.tail_seconds = ToSeconds(at - last);
  measured.round_seconds = ToSeconds(at - now_.begun);
  window_.push_back(std::move(measured));
  if (window_.size() > kWindow) window_.pop_front();
}

size_t Profile::rounds() const {
  absl::MutexLock lock(&mutex_);
  return window_.size();
}

Measured Profile::Medians() const {
  absl::MutexLock lock(&mutex_);
  Measured medians;
  medians.ready_seconds = MedianOf(window_, &Measured::ready_seconds);
  medians.pack_seconds = MedianOf(window_, &Measured::pack_seconds);
  medians.group_seconds = MedianOf(window_, &Measured::group_seconds);
  medians.tail_seconds = MedianOf(window_, &Measured::tail_seconds);
  medians.round_seconds = MedianOf(window_, &Measured::round_seconds);
  return medians;
}

std::vector<double> ToMaxima(const Measured& measured) {
  std::vector<double> maxima = measured.ready_seconds;
  maxima.insert(maxima.end(), measured.pack_seconds.begin(), measured.pack_seconds.end());
  for (double seconds : measured.group_seconds) maxima.push_back(-seconds);
  maxima.push_back(measured.tail_seconds);
  maxima.push_back(measured.round_seconds);
  return maxima;
}

Measured FromMaxima(const std::vector<double>& maxima, size_t tensors, size_t groups) {
  RW_CHECK(maxima.size() == tensors + 2 * groups + 2);
  Measured measured;
  auto at = maxima.begin();
  measured.ready_seconds.assign(at, at + tensors);
  at += tensors;
  measured.pack_seconds.assign(at, at + groups);
  at += groups;
  for (size_t g = 0; g < groups; ++g) measured.group_seconds.push_back(-*at++);
  measured.tail_seconds = *at++;
  measured.round_seconds = *at;
  return measured;
}

}  // namespace ringwood
