#include "launch/attempt.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "absl/strings/str_format.h"
#include "launch/network.h"

namespace ringwood {
namespace {

constexpr int kIdleMilliseconds = 1000;  // a look around even if nothing happens

SupervisorOptions ForSupervisor(const RunOptions& options) {
  return {options.servers, options.ranks(), options.failure_timeout_seconds,
          options.join_timeout_seconds, options.restart_on_failure};
}

}  // namespace

Attempt::Attempt(const RunOptions& options, SignalDescriptor* signals, Output* output)
    : options_(options),
      signals_(signals),
      output_(output),
      supervisor_(ForSupervisor(options)),
      lines_(options.servers) {
  for (int server = 0; server < options.servers; ++server) {
    hosts_.push_back(options.places[server % options.places.size()].host);
  }
  for (const HostRanks& place : options.places)
    hosts_.insert(hosts_.end(), place.count, place.host);
  ended_.resize(hosts_.size());
}

Attempt::~Attempt() {
  for (auto& remote : remotes_) remote->Cut();
}

void Attempt::HangUp() {
  const TimePoint deadline = Now() + Seconds(kLastSeconds);
  for (auto& remote : remotes_) remote->HangUp();
  for (bool all = false; !all && Now() < deadline;) {
    std::vector<pollfd> wait;
    all = true;
    for (auto& remote : remotes_) {
      (void)remote->Progress(true, [](const Report&) {});  // its last words have been heard
      if (remote->Gone()) continue;
      all = false;
      for (const Remote::Stream& stream : remote->Streams(true)) {
        wait.push_back({stream.descriptor, stream.events, 0});
      }
    }
    if (!all) ::poll(wait.data(), wait.size(), 100);
  }
}

TimePoint Attempt::over() const {
  TimePoint last;
  for (const auto& remote : remotes_) last = std::max(last, remote->over());
  return last;
}

std::string Attempt::Name(int member) const {
  return absl::StrFormat("%s %d (host %s)", IsServer(member) ? "server" : "rank",
                         IsServer(member) ? member : member - options_.servers, hosts_[member]);
}

Status Attempt::OpenOutput() {
  std::vector<Output::Voice> voices;
  for (int member = 0; member < static_cast<int>(hosts_.size()); ++member) {
    const int rank = member - options_.servers;
    if (IsServer(member)) {
      voices.push_back(
          {absl::StrFormat("[server %d] ", member), absl::StrFormat("server%d", member)});
    } else {
      voices.push_back(
          {rank == 0 ? "" : absl::StrFormat("[%d] ", rank), absl::StrFormat("rank%d", rank)});
    }
  }
  return output_->Open(voices);
}

Verdict Attempt::Run() {
  if (Status status = OpenOutput(); !status.ok()) {
    Verdict verdict;
    verdict.exit_code = ExitCodeOf(status);
    verdict.reason = Message(status);
    return verdict;
  }
  Carry(supervisor_.Begin(Now()));
  while (!supervisor_.done()) Turn();
  for (size_t member = 0; member < hosts_.size(); ++member) {
    if (!ended_[member]) output_->Close(member);
  }
  HangUp();
  return supervisor_.Judge();
}

void Attempt::Turn() {
  const bool read = !output_->Full();
  std::vector<pollfd> wait = {{signals_->descriptor(), POLLIN, 0}};
  for (const auto& remote : remotes_) {
    for (const Remote::Stream& stream : remote->Streams(read)) {
      wait.push_back({stream.descriptor, stream.events, 0});
    }
  }
  for (int descriptor : output_->Descriptors()) wait.push_back({descriptor, POLLOUT, 0});
  int timeout = kIdleMilliseconds;
  if (supervisor_.deadline() != TimePoint::max()) {
    const double left = ToSeconds(supervisor_.deadline() - Now());
    timeout = std::clamp(static_cast<int>(left * 1000) + 1, 0, kIdleMilliseconds);
  }
  ::poll(wait.data(), wait.size(), timeout);
  ReadSignals();
  for (size_t i = 0; i < remotes_.size(); ++i) {  // by index: starting more grows the list
    Remote* remote = remotes_[i].get();
    const Status status =
        remote->Progress(read, [&](const Report& report) { Hear(remote, report); });
    if (!status.ok()) Lose(*remote, status);
  }
  output_->Flush();
  Carry(supervisor_.Tick(Now()));
}

void Attempt::ReadSignals() {
  for (int signal = signals_->Next(); signal != 0; signal = signals_->Next()) {
    if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) continue;
    output_->Say("ringwood: ending all processes; Ctrl-C again kills them");
    output_->Flush();
    if (output_->Full())
      output_->Drop();  // the terminal does not read: the ends of processes must still be handled
    Carry(supervisor_.Interrupt(Now()));
  }
}

void Attempt::Carry(const std::vector<Action>& actions) {
  for (Action action : actions) {
    const Status status = Do(action);
    if (status.ok()) continue;
    Carry(supervisor_.Broke(status, Now()));
    return Forget(action);
  }
}

// What the failed action should have started will not come: it counts as ended.
void Attempt::Forget(Action action) {
  std::vector<bool> started(hosts_.size());
  for (const auto& remote : remotes_) {
    for (int slot = 0; slot < remote->members(); ++slot)
      started[remote->first_member() + slot] = true;
  }
  for (int member = 0; member < static_cast<int>(hosts_.size()); ++member) {
    if (started[member] || IsServer(member) != (action != Action::kStartRanks)) continue;
    ended_[member] = true;
    Carry(supervisor_.Ended(member, {128 + SIGKILL, SIGKILL, false}, Now()));
  }
}

Status Attempt::Do(Action action) {
  switch (action) {
    case Action::kStartServer:
      return StartRemote(ServerJob(options_, 0, ""), 0);
    case Action::kStartReducers:
      for (int server = 1; server < options_.servers; ++server) {
        RW_RETURN_IF_ERROR(
            StartRemote(ServerJob(options_, server, options_.context.coordinator), server));
      }
      return OkStatus();
    case Action::kStartRanks:
      return StartRanks();
    case Action::kEndStoppedRanks:
      Tell(false, "end-stopped");
      return OkStatus();
    case Action::kStopRanks:
    case Action::kKillRanks:
      Tell(false, action == Action::kStopRanks ? "stop" : "kill");
      return OkStatus();
    case Action::kStopServers:
    case Action::kKillServers:
      Tell(true, action == Action::kStopServers ? "stop" : "kill");
      return OkStatus();
    case Action::kAbandon:
      for (auto& remote : remotes_) remote->Cut();
      return OkStatus();
  }
  return OkStatus();
}

Status Attempt::StartRanks() {
  if (options_.servers == 0) {  // no server has told the first host's address
    options_.context.master_address = "127.0.0.1";
    RW_ASSIGN_OR_RETURN(master_port_, HeldPort::Take("127.0.0.1", options_.context.port_range));
    options_.context.master_port = master_port_->port();
  }
  for (const HostRanks& place : options_.places) {
    RW_RETURN_IF_ERROR(StartRemote(RankJob(options_, place), options_.servers + place.first_rank));
  }
  return OkStatus();
}

Status Attempt::StartRemote(const Job& job, int first_member) {
  RW_ASSIGN_OR_RETURN(auto remote, Remote::Start(options_.reach, job, first_member));
  remotes_.push_back(std::move(remote));
  return OkStatus();
}

void Attempt::Tell(bool servers, const std::string& word) {
  for (auto& remote : remotes_) {
    if (IsServer(remote->first_member()) == servers) remote->Say(word);
  }
}

void Attempt::Hear(Remote* remote, const Report& report) {
  const int member = remote->first_member() + static_cast<int>(report.slot);
  std::istringstream words(report.payload);
  switch (report.kind) {
    case ReportKind::kHello:
      if (member == 0 && options_.servers > 0) {
        words >> options_.context.master_address >> options_.context.master_port;
      }
      return;
    case ReportKind::kStarted:
    case ReportKind::kAlive:
      return;
    case ReportKind::kOutput:
      if (IsServer(member)) return HearServer(member, report.payload);
      [[fallthrough]];
    case ReportKind::kError:
      output_->Take(member, report.kind == ReportKind::kError, report.payload);
      return;
    case ReportKind::kEnded: {
      Ending ending;
      int stopped = 0;
      words >> ending.code >> ending.signal >> stopped;
      ending.stopped = stopped != 0;
      output_->Close(member);
      ended_[member] = true;
      return Carry(supervisor_.Ended(member, ending, Now()));
    }
    case ReportKind::kFailed: {
      int code = 0;
      words >> code;
      std::string message;
      std::getline(words >> std::ws, message, '\0');
      return Carry(supervisor_.Broke(Status(static_cast<StatusCode>(code), message), Now()));
    }
  }
}

// Lines of a server's standard output that are for the launcher; the others are shown.
void Attempt::HearServer(int member, const std::string& bytes) {
  for (const std::string& line : lines_[member].Feed(bytes)) HearServerLine(member, line);
}

void Attempt::HearServerLine(int member, const std::string& line) {
  const auto after = [&](const char* opening) -> std::optional<std::string> {
    const size_t length = std::strlen(opening);
    if (line.compare(0, length, opening) != 0) return std::nullopt;
    return line.substr(length);
  };
  if (const auto address = after(kListening)) {
    if (member == 0) {
      options_.context.coordinator = *address;
      output_->Say(absl::StrFormat(
          "ringwood: coordinator at %s on host %s, checkpoints in %s%s", *address, hosts_[0],
          options_.store,
          options_.context.checkpoint_every > 0 || options_.temporary_store
              ? ""
              : " (without --checkpoint-every K only those that the trainer saves by itself)"));
    }
    return Carry(supervisor_.Ready(member, Now()));
  }
  if (const auto verdict = after(kVerdict)) {
    int number = -1;
    if (std::sscanf(verdict->c_str(), "rank %d ", &number) == 1 && number >= 0) {
      number += options_.servers;
    } else if (std::sscanf(verdict->c_str(), "reducer %d ", &number) != 1) {
      number = -1;
    }
    return supervisor_.Told(number, *verdict);
  }
  output_->Take(member, false, line + "\n");
}

void Attempt::Lose(const Remote& remote, const Status& status) {
  std::vector<int> lost;
  for (int slot = 0; slot < remote.members(); ++slot) {
    if (!ended_[remote.first_member() + slot]) lost.push_back(remote.first_member() + slot);
  }
  if (lost.empty()) return;
  Carry(supervisor_.Broke(status, Now()));
  for (auto& other : remotes_) {
    if (other.get() == &remote) other->Gone() ? other->Cut() : other->HangUp();
  }
  for (int member : lost) {
    ended_[member] = true;
    output_->Close(member);
    Carry(supervisor_.Ended(member, {128 + SIGKILL, SIGKILL, false}, Now()));
  }
}

void Attempt::FlushOutput() {
  const TimePoint deadline = Now() + Seconds(kLastSeconds);
  while (output_->Pending() && Now() < deadline) {
    std::vector<pollfd> wait;
    for (int descriptor : output_->Descriptors()) wait.push_back({descriptor, POLLOUT, 0});
    ::poll(wait.data(), wait.size(), 100);
    output_->Flush();
  }
}

}  // namespace ringwood
