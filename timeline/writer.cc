#include "timeline/writer.h"

#include <utility>

#include "plan/wire.h"
#include "timeline/chrome.h"

namespace ringwood {

StatusOr<std::unique_ptr<TimelineWriter>> TimelineWriter::Create(const std::string& file) {
  RW_ASSIGN_OR_RETURN(auto output, TimelineOutput::Create(file));
  return std::unique_ptr<TimelineWriter>(new TimelineWriter(std::move(output)));
}

TimelineWriter::~TimelineWriter() {
  absl::MutexLock lock(&mutex_);
  Flush();
}

void TimelineWriter::Opened(const ObservedSession& session) {
  absl::MutexLock lock(&mutex_);
  rank_ = session.rank;
  output_->Begin(
      ChromeOpening({session.job, session.epoch, session.rank, session.world, session.host}));
}

void TimelineWriter::PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                                 uint64_t from_round) {
  absl::MutexLock lock(&mutex_);
  if (batch_.round < from_round) Flush();  // under the names of the plan before
  batch_.labels = std::make_shared<TimelineLabels>(LabelsOf(plan, table));
}

void TimelineWriter::Take(const TimelineEvent& event) {
  absl::MutexLock lock(&mutex_);
  if (event.kind == TimelineKind::kRound) {
    Flush();
    batch_.round = event.round;
  }
  if (batch_.events.size() < kMaxEvents) batch_.events.push_back(event);
}

void TimelineWriter::Sent(int peer, const MessageName& name, uint64_t bytes,
                          int64_t begin_nanoseconds, int64_t end_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  if (RoundOf(name.round) != batch_.round) return;
  batch_.notes.Sent(peer, name, bytes, begin_nanoseconds, end_nanoseconds);
}

void TimelineWriter::Received(int peer, const MessageName& name, int64_t at_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  if (RoundOf(name.round) != batch_.round) return;
  batch_.notes.Received(peer, name, at_nanoseconds);
}

void TimelineWriter::Flush() {
  Batch batch{.round = batch_.round, .labels = batch_.labels, .events = {}, .notes = {}};
  std::swap(batch, batch_);
  if (batch.events.empty() || batch.labels == nullptr) return;
  output_->Add([rank = rank_, batch = std::move(batch)] {
    return ChromeLines(rank, SpansOf(*batch.labels, batch.events)) +
           ChromeLines(rank, batch.notes.chunks());
  });
}

}  // namespace ringwood
