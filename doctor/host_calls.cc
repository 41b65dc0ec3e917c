#include "doctor/host_calls.h"

#include <poll.h>

#include <algorithm>
#include <sstream>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kMaxSaid = 1024;  // bytes of complaints that are kept
constexpr int kTurnMilliseconds = 500;
constexpr double kEndingSeconds = 5;

std::string LastLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

HostCalls::~HostCalls() {
  for (Call& call : calls_) {
    if (call.remote != nullptr) call.remote->HangUp();
  }
  const TimePoint deadline = Now() + Seconds(kEndingSeconds);
  const auto gone = [](const Call& call) { return call.remote == nullptr || call.remote->Gone(); };
  while (!std::all_of(calls_.begin(), calls_.end(), gone) && Now() < deadline) Turn();
  for (Call& call : calls_) {
    if (call.remote != nullptr) call.remote->Cut();
  }
}

size_t HostCalls::Start(const Job& job) {
  Call call;
  auto remote = Remote::Start(reach_, job, 0);
  if (remote.ok()) {
    call.remote = *std::move(remote);
  } else {
    call.error = Message(remote.status());
    call.ended = true;
  }
  calls_.push_back(std::move(call));
  return calls_.size() - 1;
}

void HostCalls::Hear(Call* call, const Report& report) {
  std::istringstream words(report.payload);
  int code = 0, signal = 0;
  switch (report.kind) {
    case ReportKind::kOutput:
      if (call->output.size() < kMaxOutput) call->output += report.payload;
      return;
    case ReportKind::kError:
      call->said += report.payload;
      if (call->said.size() > kMaxSaid) call->said.erase(0, call->said.size() - kMaxSaid);
      return;
    case ReportKind::kEnded:
      words >> code >> signal;
      call->ended = true;
      if (code != 0) call->error = Describe({code, signal, false}) + ": " + LastLine(call->said);
      return;
    case ReportKind::kFailed:
      words >> code;
      std::getline(words >> std::ws, call->error, '\0');
      call->ended = true;
      return;
    case ReportKind::kHello:
    case ReportKind::kStarted:
    case ReportKind::kAlive:
      return;
  }
}

void HostCalls::Turn() {
  std::vector<pollfd> wait;
  for (const Call& call : calls_) {
    if (call.remote == nullptr || call.remote->Gone()) continue;
    for (const Remote::Stream& stream : call.remote->Streams(true)) {
      wait.push_back({stream.descriptor, stream.events, 0});
    }
  }
  ::poll(wait.data(), wait.size(), kTurnMilliseconds);
  for (Call& call : calls_) {
    if (call.remote == nullptr) continue;
    const Status status =
        call.remote->Progress(true, [&](const Report& report) { Hear(&call, report); });
    if (status.ok() || call.ended) continue;
    call.error = Message(status);
    call.ended = true;
  }
}

void HostCalls::Await(size_t first, TimePoint deadline,
                      const std::function<bool(const Call&)>& done) {
  const auto open = [&](const Call& call) { return !call.ended && !done(call); };
  const auto begin = [&] { return calls_.begin() + static_cast<ptrdiff_t>(first); };
  while (std::any_of(begin(), calls_.end(), open) && Now() < deadline) Turn();
  for (size_t i = first; i < calls_.size(); ++i) {
    Call& call = calls_[i];
    if (!open(call)) continue;
    call.error = absl::StrFormat("host %s did not answer in time", call.remote->host());
    call.ended = true;
    call.remote->HangUp();
  }
}

}  // namespace ringwood
