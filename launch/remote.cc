#include "launch/remote.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace ringwood {
namespace {

constexpr size_t kRemoteReadBytes = 64 << 10;
constexpr double kPingSeconds = 1;
constexpr double kSlack = 4.0 / 3;  // of the silence: for the way, and for a worker that ends
constexpr size_t kMaxWords = 4096;  // of the remote shell's complaints

}  // namespace

StatusOr<std::unique_ptr<Remote>> Remote::Start(const Reach& reach, const Job& job,
                                                int first_member) {
  std::unique_ptr<Remote> remote(new Remote);
  remote->host_ = job.host;
  remote->local_ = job.host == "localhost";
  remote->first_member_ = first_member;
  remote->members_ = static_cast<int>(job.slots.size());
  remote->pids_.resize(job.slots.size());
  remote->silence_seconds_ = job.silence_seconds;
  if (!remote->local_) remote->start_seconds_ = reach.start_seconds;
  remote->started_ = remote->pinged_ = remote->heard_ = Now();
  ProcessOptions options;
  if (remote->local_) {
    options.command = {reach.program};
  } else {
    options.command = reach.remote_shell;
    options.command.push_back(job.host);
    options.command.push_back(reach.remote_program);
  }
  options.command.insert(options.command.end(), {"worker", "-"});
  options.environment = reach.environment;
  options.feed = true;
  options.leave_group = true;
  remote->command_ = absl::StrJoin(options.command, " ");
  RW_ASSIGN_OR_RETURN(remote->process_, Process::Spawn(options));
  Job sent = job;
  sent.launcher = remote->local_ ? ::getpid() : 0;
  remote->pending_ = ToJson(sent) + "\n";
  return remote;
}

std::vector<Remote::Stream> Remote::Streams(bool read) const {
  std::vector<Stream> streams;
  if (!pending_.empty() && process_->input() >= 0) streams.push_back({process_->input(), POLLOUT});
  if (read && process_->output() >= 0) streams.push_back({process_->output(), POLLIN});
  if (process_->error() >= 0) streams.push_back({process_->error(), POLLIN});
  return streams;
}

// One ping at a time: when the launcher has heard nothing for a while, the worker has not either,
// and ends a little after that. While the launcher does not read, it cannot wait for answers.
void Remote::Ping(bool read) {
  if (silence_seconds_ <= 0 || lost_ || Now() - pinged_ < Seconds(kPingSeconds)) return;
  if (!answered_ && read) return;
  answered_ = false;
  pinged_ = Now();
  Say("ping");
}

Status Remote::Silence(bool read) {
  if (!read) started_ = Now();
  if (!read || !reader_.opened()) heard_ = Now();  // Started() watches over a remote shell
  const double seconds = ToSeconds(Now() - heard_);
  if (silence_seconds_ <= 0 || seconds <= silence_seconds_ * kSlack) return OkStatus();
  lost_ = true;
  return Unavailable(absl::StrFormat("host %s was silent for %.0f s (%s); it is counted as lost",
                                     host_, seconds, command_));
}

// The opening is the worker's first word; until it comes nothing else is told from a shell that
// hangs, on a lost route or at a question that nobody answers.
Status Remote::Started() {
  if (reader_.opened() || start_seconds_ <= 0 || Now() - started_ <= Seconds(start_seconds_)) {
    return OkStatus();
  }
  lost_ = true;
  const std::string said = Said();
  return Unavailable(absl::StrFormat(
      "the remote shell to host %s has started no worker within %.0f s (%s): is the host up, and "
      "does that command start ringwood there without asking anything?%s",
      host_, start_seconds_, command_, said.empty() ? "" : " It said: " + said));
}

TimePoint Remote::over() const {
  if (Gone() || silence_seconds_ <= 0) return TimePoint();
  return heard_ + Seconds(silence_seconds_ * kSlack);
}

Status Remote::Progress(bool read, const std::function<void(const Report&)>& sink) {
  Ping(read);
  while (!pending_.empty() && process_->input() >= 0) {
    const ssize_t count = ::write(process_->input(), pending_.data(), pending_.size());
    if (count < 0 && errno != EAGAIN && errno != EINTR) process_->CloseInput();
    if (count <= 0) break;
    pending_.erase(0, count);
  }
  bool end = false;
  if (process_->error() >= 0) {
    words_ += ReadSome(process_->error(), kRemoteReadBytes, &end);
    if (words_.size() > kMaxWords) words_.erase(0, words_.size() - kMaxWords);
    if (end) process_->CloseError();
  }
  if (process_->output() >= 0 && !lost_) RW_RETURN_IF_ERROR(Silence(read));
  if (!read || process_->output() < 0) return OkStatus();
  end = false;
  const bool ended = process_->Ended();  // asked before reading: what it wrote is all there then
  const std::string bytes = ReadSome(process_->output(), kRemoteReadBytes, &end);
  if (!bytes.empty()) heard_ = Now();
  const Status status = reader_.Feed(bytes, [&](const Report& report) {
    if (report.kind == ReportKind::kAlive) answered_ = true;
    if (report.slot >= pids_.size()) return;
    if (report.kind == ReportKind::kStarted) pids_[report.slot] = std::atoi(report.payload.c_str());
    if (report.kind == ReportKind::kEnded) pids_[report.slot] = 0;
    sink(report);
  });
  if (!status.ok()) {  // the remote shell's doing or the network's, not a file of ours
    return Unavailable(absl::StrFormat("host %s (%s): %s", host_, command_, Message(status)));
  }
  if (end) process_->CloseOutput();
  // A remote shell that died may have left its worker, and with it the pipe's other end: hanging up
  // ends that worker, and the pipe's end will show that it has ended.
  if (lost_) return OkStatus();
  if (!end && !(ended && bytes.empty())) return Started();
  lost_ = true;
  return Lost();
}

std::string Remote::Said() const {
  std::string said = reader_.foreign() + words_;
  while (!said.empty() && isspace(static_cast<unsigned char>(said.back()))) said.pop_back();
  return said;
}

Status Remote::Lost() const {
  const std::string said = Said();
  return Unavailable(absl::StrFormat(
      "the connection to host %s ended (%s)%s", host_, command_,
      said.empty() ? "; is the host up, and is ringwood installed there?" : ": " + said));
}

void Remote::Say(const std::string& word) { pending_ += word + "\n"; }

void Remote::HangUp() { process_->CloseInput(); }

void Remote::Cut() {
  HangUp();
  process_->Signal(SIGKILL);
  if (!local_) return;
  for (pid_t pid : pids_) {
    if (pid > 0) ::kill(-pid, SIGKILL);
  }
}

}  // namespace ringwood
