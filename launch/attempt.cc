#include "launch/attempt.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "launch/network.h"
#include "launch/rank_list.h"
#include "launch/run_jobs.h"
#include "launch/server_line.h"

namespace ringwood {
namespace {

constexpr int kIdleMilliseconds = 1000;  // a look around even if nothing happens

SupervisorOptions ForSupervisor(const RunOptions& options, const Members& members) {
  SupervisorOptions supervisor{options.servers, options.ranks(), options.failure_timeout_seconds,
                               options.join_timeout_seconds, options.restart_on_failure};
  supervisor.grace_seconds = options.grace_seconds;
  for (int server = 0; server < options.servers; ++server) {
    supervisor.server_names.push_back(members.Name(server));
  }
  if (!options.elastic) return supervisor;
  const ElasticRun& elastic = *options.elastic;
  supervisor.elastic = ElasticOptions{{options.servers, members.hosts(), elastic.restarts,
                                       elastic.host_failures, elastic.host_cooldown_seconds},
                                      elastic.min_ranks,
                                      elastic.spares,
                                      options.join_timeout_seconds,
                                      options.restart_on_failure};
  return supervisor;
}

}  // namespace

Attempt::Attempt(const RunOptions& options, SignalDescriptor* signals, Output* output)
    : options_(options),
      signals_(signals),
      output_(output),
      members_(options),
      supervisor_(ForSupervisor(options, members_)),
      lines_(options.servers),
      certificates_(options.authority, options.context.job == 0
                                           ? "run"
                                           : absl::StrFormat("%016x", options.context.job)),
      remotes_(members_.count()) {}

Verdict Attempt::Run() {
  if (Status status = output_->Open(members_.Voices()); !status.ok()) {
    Verdict verdict;
    verdict.exit_code = ExitCodeOf(status);
    verdict.reason = Message(status);
    return verdict;
  }
  Carry(supervisor_.Begin(Now()));
  while (!supervisor_.done()) Turn();
  for (int member = 0; member < members_.count(); ++member) {
    if (remotes_.Of(member) != nullptr) output_->Close(member);
  }
  remotes_.HangUp(kLastSeconds);
  return supervisor_.Judge();
}

void Attempt::Turn() {
  const bool read = !output_->Full();
  std::vector<pollfd> wait = {{signals_->descriptor(), POLLIN, 0}};
  remotes_.AddStreams(read, &wait);
  for (int descriptor : output_->Descriptors()) wait.push_back({descriptor, POLLOUT, 0});
  int timeout = kIdleMilliseconds;
  if (supervisor_.deadline() != TimePoint::max()) {
    const double left = ToSeconds(supervisor_.deadline() - Now());
    timeout = std::clamp(static_cast<int>(left * 1000) + 1, 0, kIdleMilliseconds);
  }
  ::poll(wait.data(), wait.size(), timeout);
  ReadSignals();
  remotes_.Progress(
      read, [this](Remote* remote, const Report& report) { Hear(remote, report); },
      [this](Remote* remote, const Status& status) { Lose(remote, status); });
  if (options_.elastic) remotes_.Sweep();
  SaySetbacks();
  RenewCertificates();
  output_->Flush();
  Carry(supervisor_.Tick(Now()));
}

void Attempt::ReadSignals() {
  for (int signal = signals_->Next(); signal != 0; signal = signals_->Next()) {
    if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) continue;
    const bool grace = signal == SIGTERM;
    output_->Say(grace
                     ? absl::StrFormat("ringwood: ending all processes, which have %g s for a last "
                                       "checkpoint (--grace)",
                                       options_.grace_seconds)
                     : "ringwood: ending all processes; Ctrl-C again kills them");
    output_->Flush();
    if (output_->Full())
      output_->Drop();  // the terminal does not read: the ends of processes must still be handled
    Carry(supervisor_.Interrupt(Now(), grace));
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
  for (int member = 0; member < members_.count(); ++member) {
    if (remotes_.Of(member) != nullptr ||
        members_.IsServer(member) != (action != Action::kStartRanks)) {
      continue;
    }
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
    case Action::kStartAgain:
      for (int member : supervisor_.TakeDue()) StartAgain(member);
      return OkStatus();
    case Action::kEndStuck:
      for (int member : supervisor_.TakeStuck()) EndStuck(member);
      return OkStatus();
    case Action::kEndStoppedRanks:
      TellRanks("end-stopped");
      return OkStatus();
    case Action::kStopRanks:
    case Action::kKillRanks:
      TellRanks(action == Action::kStopRanks ? "stop" : "kill");
      return OkStatus();
    case Action::kStopServers:
    case Action::kKillServers:
      remotes_.Say(action == Action::kStopServers ? "stop" : "kill", 0, options_.servers);
      return OkStatus();
    case Action::kAbandon:
      remotes_.Cut();
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

Status Attempt::StartRemote(Job job, int first_member) {
  if (certificates_.on()) job.authority = certificates_.authority();
  for (size_t slot = 0; certificates_.on() && slot < job.slots.size(); ++slot) {
    const int member = first_member + static_cast<int>(slot);
    const bool server = members_.IsServer(member);
    RW_ASSIGN_OR_RETURN(
        job.slots[slot].leaf,
        certificates_.Issue(member, server ? IdentityRole::kServer : IdentityRole::kRank,
                            server ? NumberOfServer(options_, member) : members_.RankOf(member),
                            std::time(nullptr)));
  }
  return remotes_.Start(options_.reach, job, first_member);
}

void Attempt::RenewCertificates() {
  certificates_.Renew(std::time(nullptr), [this](int member, const std::string& certificate) {
    Remote* const remote = remotes_.Of(member);
    if (remote == nullptr) return;
    remote->Say(absl::StrFormat("renew %d %s", member - remote->first_member(),
                                absl::BytesToHexString(certificate)));
  });
}

void Attempt::EndStuck(int member) {
  Remote* remote = remotes_.Of(member);
  if (remote == nullptr) return;
  output_->Say(
      absl::StrFormat("ringwood: %s has not come back for %g s (--join-timeout); it is ended",
                      Name(member), options_.join_timeout_seconds),
      LogLevel::kWarning);
  remote->Say(absl::StrFormat("kill %d", member - remote->first_member()));
}

// The number of its restart is in its environment and in the names of its files.
void Attempt::StartAgain(int member) {
  RunOptions options = options_;
  options.context.restart += supervisor_.restarts(member);
  output_->Begin(member);
  if (members_.IsServer(member)) lines_[member] = LineCutter();
  const Status status = StartRemote(members_.IsServer(member)
                                        ? ServerJob(options, member, options.context.coordinator)
                                        : RankJob(options, members_.RankOf(member)),
                                    member);
  if (status.ok()) return;
  output_->Say("ringwood: " + Message(status), LogLevel::kWarning);
  End(member, {kExitRestart, 0, false});
}

void Attempt::Hear(Remote* remote, const Report& report) {
  const int member = remote->first_member() + static_cast<int>(report.slot);
  std::istringstream words(report.payload);
  switch (report.kind) {
    case ReportKind::kHello:
      if (member == 0 && options_.servers > 0 && options_.context.master_address.empty()) {
        words >> options_.context.master_address >> options_.context.master_port;
      }
      return;
    case ReportKind::kStarted:
    case ReportKind::kAlive:
      return;
    case ReportKind::kOutput:
      if (members_.IsServer(member)) return HearServer(member, report.payload);
      [[fallthrough]];
    case ReportKind::kError:
      output_->Take(member, report.kind == ReportKind::kError, report.payload);
      return;
    case ReportKind::kEnded: {
      Ending ending;
      int stopped = 0;
      words >> ending.code >> ending.signal >> stopped;
      ending.stopped = stopped != 0;
      if (remotes_.Of(member) == remote) End(member, ending);
      return;
    }
    case ReportKind::kFailed: {
      int code = 0;
      words >> code;
      std::string message;
      std::getline(words >> std::ws, message, '\0');
      return HearFailed(remote, Status(static_cast<StatusCode>(code), message));
    }
  }
}

void Attempt::End(int member, const Ending& ending) {
  Close(member);
  Carry(supervisor_.Ended(member, ending, Now()));
}

void Attempt::Close(int member) {
  remotes_.Ended(member);
  output_->Close(member);
  if (options_.elastic) tails_.try_emplace(member, output_->Tail(member));
}

// The worker could not start its processes. A command that cannot be started the first time is
// wrong; later, or for want of something, it is this host that fails.
void Attempt::HearFailed(Remote* remote, const Status& status) {
  const int first = remote->first_member();
  const bool begins = supervisor_.restarts(first) == 0;
  if (!supervisor_.Trains() || (begins && ExitCodeOf(status) == kExitConfiguration)) {
    return Carry(supervisor_.Broke(status, Now()));
  }
  output_->Say("ringwood: " + Message(status), LogLevel::kWarning);
  for (int member : remotes_.MembersOf(remote)) End(member, {ExitCodeOf(status), 0, false});
}

// Lines of a server's standard output that are for the launcher; the others are shown.
void Attempt::HearServer(int member, const std::string& bytes) {
  for (const std::string& line : lines_[member].Feed(bytes)) HearServerLine(member, line);
}

void Attempt::HearServerLine(int member, const std::string& text) {
  const auto line = ReadServerLine(text);
  if (!line) return output_->Take(member, false, text + "\n");
  const int named = members_.OfRank(line->rank);
  switch (line->kind) {
    case ServerLine::Kind::kListening:
      return HearListening(member, line->text);
    case ServerLine::Kind::kVerdict:
      return Carry(supervisor_.Told(named, line->text, Now()));
    case ServerLine::Kind::kRecovery:
      output_->Say(absl::StrFormat("ringwood: %s; the others go on", line->text),
                   LogLevel::kWarning);
      if (named >= 0) supervisor_.Dropped(named, Now());
      return;
    case ServerLine::Kind::kAwaits:
      return Carry(supervisor_.Awaited(MembersOf(line->ranks), Now()));
    case ServerLine::Kind::kEpoch:
      return HearEpoch(line->epoch, line->ranks);
  }
}

void Attempt::HearListening(int member, const std::string& address) {
  tails_.erase(member);
  if (member == 0) {
    options_.context.coordinator = address;
    output_->Say(absl::StrFormat("ringwood: coordinator %sat %s on host %s, checkpoints in %s%s",
                                 restarts(0) > 0 ? "again " : "", address, members_.host(0),
                                 options_.store,
                                 options_.update_log.empty() ? "" : " with an update log"));
  }
  Carry(supervisor_.Ready(member, Now()));
}

// Of those that the job has: a server may be told of more.
std::vector<int> Attempt::MembersOf(const std::vector<int>& ranks) const {
  std::vector<int> members;
  for (const int rank : ranks) {
    const int member = members_.OfRank(rank);
    if (member >= 0) members.push_back(member);
  }
  return members;
}

void Attempt::HearEpoch(uint64_t epoch, const std::vector<int>& ranks) {
  if (ranks.empty()) return;
  const std::vector<int> members = MembersOf(ranks);
  for (const int member : members) tails_.erase(member);
  output_->Say(absl::StrFormat("ringwood: epoch %d with %s: %s", epoch,
                               FormatCount(static_cast<int>(ranks.size()), "rank"),
                               RankList(ranks)));
  supervisor_.TookPart(members);
}

void Attempt::Lose(Remote* remote, const Status& status) {
  const std::vector<int> lost = remotes_.MembersOf(remote);
  if (lost.empty()) return;
  const TimePoint over = remote->over();
  if (remote->host() == members_.host(0)) first_host_fell_silent_ |= !remote->Gone();
  if (supervisor_.Trains()) {
    output_->Say("ringwood: " + Message(status), LogLevel::kWarning);
    remotes_.Abandon(remote);
  } else {
    Carry(supervisor_.Broke(status, Now()));
    remote->Gone() ? remote->Cut() : remote->HangUp();
  }
  for (int member : lost) {
    Close(member);
    Carry(supervisor_.Lost(member, over, Now()));
  }
}

void Attempt::SaySetbacks() {
  for (const Setback& setback : supervisor_.TakeSetbacks()) {
    const Revival& revival = setback.revival;
    const std::string& host = members_.host(setback.member);
    std::string what = supervisor_.Trains() ? "; the others go on without it" : "";
    if (revival.again) {
      what = "; it is started again";
      if (revival.pause_seconds >= 1) what += absl::StrFormat(" in %.0f s", revival.pause_seconds);
      if (revival.most > 0) what += absl::StrFormat(" (%d of %d)", revival.count, revival.most);
    }
    output_->Say(absl::StrFormat("ringwood: %s %s%s", Name(setback.member), setback.reason, what),
                 LogLevel::kWarning);
    if (!revival.set_aside) continue;
    output_->Say(absl::StrFormat("ringwood: host %s is set aside for %g s: its processes failed %d "
                                 "times within a minute",
                                 host, options_.elastic->host_cooldown_seconds,
                                 options_.elastic->host_failures),
                 LogLevel::kWarning);
  }
}

std::vector<std::string> Attempt::Tail(int member) const {
  const auto found = tails_.find(member);
  return found == tails_.end() ? output_->Tail(member) : found->second;
}

int Attempt::restarts() const {
  int sum = 0;
  for (int member = 0; member < members_.count(); ++member) {
    sum += supervisor_.restarts(member);
  }
  return sum;
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
