// Several observers as one.
#pragma once

#include <memory>
#include <vector>

#include "timeline/observer.h"

namespace ringwood {

class Observers : public Observer {
 public:
  void Add(Observer* observer) { all_.push_back(observer); }  // before the first event

  void Opened(const ObservedSession& session) override {
    for (Observer* one : all_) one->Opened(session);
  }
  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override {
    for (Observer* one : all_) one->PlanAdopted(plan, table, from_round);
  }
  void RoundBegun(uint64_t round, TimePoint at) override {
    for (Observer* one : all_) one->RoundBegun(round, at);
  }
  void GradientReady(uint64_t round, uint32_t tensor, TimePoint at) override {
    for (Observer* one : all_) one->GradientReady(round, tensor, at);
  }
  void SelectionBegun(uint64_t round, uint32_t group, TimePoint at) override {
    for (Observer* one : all_) one->SelectionBegun(round, group, at);
  }
  void Selected(uint64_t round, uint32_t group, TimePoint at) override {
    for (Observer* one : all_) one->Selected(round, group, at);
  }
  void GroupStarted(uint64_t round, uint32_t group, TimePoint at) override {
    for (Observer* one : all_) one->GroupStarted(round, group, at);
  }
  void GroupEnded(uint64_t round, uint32_t group, uint64_t sent_bytes, TimePoint at) override {
    for (Observer* one : all_) one->GroupEnded(round, group, sent_bytes, at);
  }
  void WaitBegun(uint64_t round, TimePoint at) override {
    for (Observer* one : all_) one->WaitBegun(round, at);
  }
  void Voted(uint64_t round, uint64_t digest, TimePoint at) override {
    for (Observer* one : all_) one->Voted(round, digest, at);
  }
  void Committed(uint64_t round, bool skipped, TimePoint at) override {
    for (Observer* one : all_) one->Committed(round, skipped, at);
  }
  void Applied(uint64_t round, TimePoint at) override {
    for (Observer* one : all_) one->Applied(round, at);
  }
  void Failed(const std::string& reason, TimePoint at) override {
    for (Observer* one : all_) one->Failed(reason, at);
  }

 private:
  std::vector<Observer*> all_;
};

}  // namespace ringwood
