#include "client/trace_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "client/trace_chrome.h"

namespace ringwood {
namespace {

constexpr double kLastWriteSeconds = 10;

TraceChunk::Touch* TouchOf(TraceChunk* chunk, int peer) {
  for (TraceChunk::Touch& touch : chunk->touches) {
    if (touch.peer == peer) return &touch;
  }
  chunk->touches.push_back({.peer = peer});
  return &chunk->touches.back();
}

}  // namespace

StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& file) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return Invalid(absl::StrFormat("the timeline %s cannot be created: %s", file, strerror(errno)));
  }
  return std::unique_ptr<TraceWriter>(new TraceWriter(file, descriptor));
}

TraceWriter::TraceWriter(std::string file, int descriptor)
    : file_(std::move(file)), descriptor_(descriptor), loop_(std::make_unique<Loop>("timeline")) {}

TraceWriter::~TraceWriter() {
  {
    absl::MutexLock lock(&mutex_);
    Flush();
    if (left_out_ > 0) {
      Log(LogLevel::kWarning,
          absl::StrFormat("timeline %s: %d rounds were left out, the disk was too slow", file_,
                          left_out_));
    }
  }
  const Status written = loop_->Call([] { return OkStatus(); }, Seconds(kLastWriteSeconds));
  if (!written.ok()) Log(LogLevel::kWarning, "timeline " + file_ + ": " + Message(written));
  loop_.reset();
  close(descriptor_);
}

void TraceWriter::Opened(const ObservedSession& session) {
  absl::MutexLock lock(&mutex_);
  rank_ = session.rank;
  const TraceInfo info{session.job, session.epoch, session.rank, session.world, session.host};
  loop_->Post([this, lines = ChromeOpening(info)] { Write(lines); });
}

void TraceWriter::PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                              uint64_t from_round) {
  absl::MutexLock lock(&mutex_);
  if (batch_.round < from_round) Flush();  // under the names of the plan before
  batch_.labels = std::make_shared<TraceLabels>(LabelsOf(plan, table));
}

void TraceWriter::Take(const TraceEvent& event) {
  absl::MutexLock lock(&mutex_);
  if (event.kind == TraceKind::kRound) {
    Flush();
    batch_.round = event.round;
  }
  if (batch_.events.size() < kMaxEvents) batch_.events.push_back(event);
}

// Chunks in flight are few and the newest, so the search goes backwards.
TraceChunk* TraceWriter::ChunkOf(const MessageName& name, int64_t at) {
  if (name.round != batch_.round) return nullptr;
  for (auto chunk = batch_.chunks.rbegin(); chunk != batch_.chunks.rend(); ++chunk) {
    if (chunk->chunk == name.chunk && chunk->group == name.group && chunk->lane == name.lane) {
      return &*chunk;
    }
  }
  if (batch_.chunks.size() == kMaxChunks) return nullptr;
  batch_.chunks.push_back({.lane = name.lane,
                           .round = name.round,
                           .group = name.group,
                           .chunk = name.chunk,
                           .begin_nanoseconds = at,
                           .touches = {}});
  return &batch_.chunks.back();
}

void TraceWriter::Sent(int peer, const MessageName& name, uint64_t bytes, int64_t begin_nanoseconds,
                       int64_t end_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  TraceChunk* chunk = ChunkOf(name, begin_nanoseconds);
  if (chunk == nullptr) return;
  chunk->begin_nanoseconds = std::min(chunk->begin_nanoseconds, begin_nanoseconds);
  chunk->end_nanoseconds = std::max(chunk->end_nanoseconds, end_nanoseconds);
  chunk->sent_bytes += bytes;
  TraceChunk::Touch* touch = TouchOf(chunk, peer);
  if (touch->first_sent_nanoseconds == 0 || begin_nanoseconds < touch->first_sent_nanoseconds) {
    touch->first_sent_nanoseconds = begin_nanoseconds;
  }
}

void TraceWriter::Received(int peer, const MessageName& name, int64_t at_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  TraceChunk* chunk = ChunkOf(name, at_nanoseconds);
  if (chunk == nullptr) return;
  chunk->end_nanoseconds = std::max(chunk->end_nanoseconds, at_nanoseconds);
  TraceChunk::Touch* touch = TouchOf(chunk, peer);
  if (touch->first_received_nanoseconds == 0) touch->first_received_nanoseconds = at_nanoseconds;
}

void TraceWriter::Flush() {
  Batch batch{.round = batch_.round, .labels = batch_.labels, .events = {}, .chunks = {}};
  std::swap(batch, batch_);
  if (batch.events.empty() || batch.labels == nullptr) return;
  if (waiting_ == kMaxWaiting) {
    ++left_out_;
    return;
  }
  ++waiting_;
  loop_->Post([this, rank = rank_, batch = std::move(batch)] {
    Write(ChromeLines(rank, SpansOf(*batch.labels, batch.events)) +
          ChromeLines(rank, batch.chunks));
    absl::MutexLock lock(&mutex_);
    --waiting_;
  });
}

// Not buffered: a fork of the process has nothing of ours to write, and a kill loses one round.
void TraceWriter::Write(const std::string& lines) {
  for (size_t at = 0; at < lines.size() && !broken_;) {
    const ssize_t written = write(descriptor_, lines.data() + at, lines.size() - at);
    if (written > 0) {
      at += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      broken_ = true;
      Log(LogLevel::kWarning, absl::StrFormat("timeline %s ends here: %s", file_, strerror(errno)));
    }
  }
}

}  // namespace ringwood
