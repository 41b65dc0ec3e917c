// An observer that keeps a flight record.
#pragma once

#include <utility>

#include "timeline/event_observer.h"
#include "timeline/flight_record.h"

namespace ringwood {

class FlightRecorder : public TimelineObserver {
 public:
  explicit FlightRecorder(FlightRecord record) : record_(std::move(record)) {}

  void Opened(const ObservedSession& session) override {
    FlightHeader header;
    header.job = session.job;
    header.epoch = session.epoch;
    header.rank = static_cast<uint32_t>(session.rank);
    header.world = static_cast<uint32_t>(session.world);
    header.host = session.host;
    record_.Begin(header);
  }
  void Failed(const std::string& reason, TimePoint at) override {
    record_.SetFailure(reason);
    TimelineObserver::Failed(reason, at);
  }
  void Take(const TimelineEvent& event) override { record_.Write(event); }

 private:
  FlightRecord record_;
};

}  // namespace ringwood
