#include "launch/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"

namespace ringwood {
namespace {

constexpr size_t kReadBytes = 16 << 10;       // one read of a process's output
constexpr size_t kLastBytes = 256 << 10;      // read after an end at most: two full pipes and more
constexpr int kJobMilliseconds = 120 * 1000;  // the launcher sends the job at once, or is dead
constexpr int kFlushMilliseconds = 5 * 1000;  // for the last reports
constexpr int kDeathMilliseconds = 1000;      // from the end of the launcher's pipes to its own
constexpr int kAgentIdleMilliseconds = 1000;  // a look around even if a signal was lost

// Makes a directory that is accessible to its owner only; one that an earlier start of the job made
// is good as well.
Status MakePrivate(const std::string& path, const std::string& host) {
  struct stat state {};
  if (::mkdir(path.c_str(), 0700) == 0) return OkStatus();
  const int error = errno;
  const bool ours = error == EEXIST && ::lstat(path.c_str(), &state) == 0 &&
                    S_ISDIR(state.st_mode) && state.st_uid == ::geteuid() &&
                    (state.st_mode & 0077) == 0;
  if (ours) return OkStatus();
  return Invalid(
      absl::StrFormat("cannot make a temporary store %s on host %s: %s; give --store DIR", path,
                      host, std::strerror(error)));
}

// The ranks of a host share its cores. OpenMP, and PyTorch with it, would start a thread for each
// core in every rank.
Environment ShareOfCores(const Environment& rank) {
  const auto found = rank.find("LOCAL_WORLD_SIZE");
  const int ranks = found == rank.end() ? 1 : std::atoi(found->second.c_str());
  if (ranks <= 1) return {};
  const int cores = static_cast<int>(std::thread::hardware_concurrency());  // 0: not known
  return {{"OMP_NUM_THREADS", std::to_string(std::max(1, cores / ranks))}};
}

}  // namespace

Agent::Agent(const AgentOptions& options)
    : options_(options), signals_{SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGPIPE} {}

Agent::~Agent() {
  slots_.clear();
  orphans_.End();
  if (hung_up_) RemoveScratch();
}

int Agent::Run() {
  pending_ = kOpening;
  StatusOr<Job> job = ReadJob();
  Status status = job.status();
  if (status.ok()) status = Start(*job);
  if (!status.ok()) {
    const std::string text =
        absl::StrFormat("%d %s", static_cast<int>(status.code()), Message(status));
    Tell(ReportKind::kFailed, 0, text.substr(0, kMaxReportBytes));
    code_ = 78;
  }
  ObeyWords();  // that came with the job
  while (!orphaned_ && !AllEnded()) Turn();
  if (orphaned_) KillAll();
  const TimePoint deadline = Now() + std::chrono::milliseconds(kFlushMilliseconds);
  while (!orphaned_ && !pending_.empty() && Now() < deadline) {
    pollfd out = {options_.output, POLLOUT, 0};
    ::poll(&out, 1, 100);
    Flush();
  }
  return code_;
}

StatusOr<Job> Agent::ReadJob() {
  const TimePoint deadline = Now() + std::chrono::milliseconds(kJobMilliseconds);
  for (;;) {
    const size_t newline = words_.find('\n');
    if (newline != std::string::npos) {
      const std::string line = words_.substr(0, newline);
      words_.erase(0, newline + 1);
      return JobFromJson(line);
    }
    if (words_.size() > Job::kMaxBytes) return Invalid("the job on standard input is too long");
    if (Now() > deadline) return TimedOut("no job came on standard input");
    pollfd in = {options_.input, POLLIN, 0};
    if (::poll(&in, 1, kAgentIdleMilliseconds) <= 0) continue;
    bool end = false;
    words_ += ReadSome(options_.input, kReadBytes, &end);
    if (end) return Invalid("standard input ended before the job's line; the launcher is gone");
  }
}

StatusOr<std::string> Agent::Hello(const Job& job) {
  RW_ASSIGN_OR_RETURN(const std::string address, AddressOf(job.network_interface));
  if (!job.master_port) return address + " 0";
  RW_ASSIGN_OR_RETURN(master_port_, HeldPort::Take(address, job.port_range));
  return absl::StrFormat("%s %d", address, master_port_->port());
}

Status Agent::Start(const Job& job) {
  auto hello = Hello(job);
  if (!hello.ok()) return Annotate(hello.status(), "host " + job.host);
  Tell(ReportKind::kHello, 0, *hello);
  launcher_ = job.launcher;
  if (!job.scratch.empty()) RW_RETURN_IF_ERROR(MakePrivate(job.scratch, job.host));
  scratch_ = job.scratch;
  heard_ = Now();
  if (job.silence_seconds > 0) patience_ = Seconds(job.silence_seconds);
  for (int descriptor : {options_.input, options_.output}) {
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }
  if (!job.authority.empty()) {
    auto made = KeyFolder::Make(options_.environment);
    if (!made.ok()) return Annotate(made.status(), "host " + job.host);
    keys_.emplace(*std::move(made));
  }
  RW_ASSIGN_OR_RETURN(const Environment others, InterfaceVariables(job.network_interface));
  slots_.resize(job.slots.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    ProcessOptions options;
    options.command = job.command;
    options.directory = job.directory;
    options.die_with_parent = true;
    options.environment = options_.environment;
    options.environment.insert(others.begin(), others.end());  // what is set already stays
    options.environment.merge(ShareOfCores(job.slots[i].environment));
    for (const auto* more : {&job.environment, &job.slots[i].environment}) {
      for (const auto& [name, value] : *more) options.environment[name] = value;
    }
    if (keys_) {
      RW_ASSIGN_OR_RETURN(options.environment["RINGWOOD_IDENTITY"],
                          keys_->Write(i, job.authority, job.slots[i].leaf));
    }
    auto process = Process::Spawn(options);
    if (!process.ok()) {  // the same command fails for all of them, and no restart will help
      KillAll();
      return Annotate(process.status(),
                      absl::StrFormat("%s on host %s", job.slots[i].name, job.host));
    }
    slots_[i].process = std::move(*process);
    Tell(ReportKind::kStarted, i, std::to_string(slots_[i].process->pid()));
  }
  return OkStatus();
}

void Agent::Turn() {
  std::vector<pollfd> wait = {
      {options_.input, POLLIN, 0},
      {signals_.descriptor(), POLLIN, 0},
      {options_.output, static_cast<short>(pending_.empty() ? 0 : POLLOUT), 0}};
  struct Stream {
    size_t slot;
    bool error;
  };
  std::vector<Stream> streams;
  for (size_t i = 0; i < slots_.size() && pending_.size() < kMaxPending; ++i) {
    if (slots_[i].process == nullptr) continue;
    for (bool error : {false, true}) {
      const int descriptor = error ? slots_[i].process->error() : slots_[i].process->output();
      if (descriptor < 0) continue;
      wait.push_back({descriptor, POLLIN, 0});
      streams.push_back({i, error});
    }
  }
  ::poll(wait.data(), wait.size(), kAgentIdleMilliseconds);
  if (wait[0].revents != 0) ReadWords();
  if (patience_ != Duration::max() && Now() - heard_ > patience_) orphaned_ = true;
  for (int signal = signals_.Next(); signal != 0; signal = signals_.Next()) {
    if (signal == SIGTERM || signal == SIGHUP) orphaned_ = true;
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    if (wait[3 + i].revents != 0) Forward(streams[i].slot, streams[i].error, kReadBytes);
  }
  Reap();
  if (wait[2].revents & POLLERR)
    orphaned_ = hung_up_ = true;  // the launcher does not read the reports any more
  Flush();
}

void Agent::ReadWords() {
  bool end = false;
  words_ += ReadSome(options_.input, kReadBytes, &end);
  if (end) orphaned_ = hung_up_ = true;
  heard_ = Now();
  ObeyWords();
}

void Agent::ObeyWords() {
  for (size_t newline = words_.find('\n'); newline != std::string::npos;
       newline = words_.find('\n')) {
    const std::string word = words_.substr(0, newline);
    words_.erase(0, newline + 1);
    Obey(word);
  }
}

void Agent::Obey(const std::string& word) {
  if (word == "kill") KillAll();
  if (word.rfind("kill ", 0) == 0) KillSlot(word.substr(5));
  if (word.rfind("renew ", 0) == 0) Renew(word.substr(6));
  if (word == "end-stopped") EndStopped();
  if (word == "ping" && pending_.size() < kMaxPending) Tell(ReportKind::kAlive, 0, "");
  if (word != "stop") return;
  for (Running& running : slots_) {
    if (running.process == nullptr) continue;
    running.stopped = running.process->Stopped();
    running.process->Signal(running.stopped ? SIGKILL
                                            : SIGTERM);  // a stopped process handles no other
  }
}

void Agent::KillSlot(const std::string& number) {
  const size_t slot = std::strtoul(number.c_str(), nullptr, 10);
  if (slot >= slots_.size() || slots_[slot].process == nullptr) return;
  slots_[slot].stopped = slots_[slot].process->Stopped();
  slots_[slot].process->Signal(SIGKILL);
}

// What cannot be written is tried again with the next renewal, long before the old one expires.
void Agent::Renew(const std::string& slot_and_certificate) {
  const size_t blank = slot_and_certificate.find(' ');
  const size_t slot = std::strtoul(slot_and_certificate.c_str(), nullptr, 10);
  if (!keys_ || blank == std::string::npos || slot >= slots_.size()) return;
  (void)keys_->Replace(slot, absl::HexStringToBytes(slot_and_certificate.substr(blank + 1)));
}

void Agent::EndStopped() {
  for (Running& running : slots_) {
    if (running.process == nullptr || !running.process->Stopped()) continue;
    running.stopped = true;
    running.process->Signal(SIGKILL);
  }
}

void Agent::Forward(size_t slot, bool error, size_t limit) {
  Process& process = *slots_[slot].process;
  bool end = false;
  for (size_t done = 0; done < limit;) {
    const int descriptor = error ? process.error() : process.output();
    if (descriptor < 0) return;
    const std::string bytes = ReadSome(descriptor, kReadBytes, &end);
    if (!bytes.empty()) Tell(error ? ReportKind::kError : ReportKind::kOutput, slot, bytes);
    if (end) error ? process.CloseError() : process.CloseOutput();
    if (bytes.empty()) return;
    done += bytes.size();
  }
}

void Agent::Reap() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Running& running = slots_[i];
    if (running.process == nullptr || !running.process->Ended()) continue;
    Forward(i, false, kLastBytes);
    Forward(i, true, kLastBytes);
    Ending ending = running.process->ending();
    ending.stopped = running.stopped;
    if (code_ == 0) code_ = ending.code;
    Tell(ReportKind::kEnded, i,
         absl::StrFormat("%d %d %d", ending.code, ending.signal, ending.stopped ? 1 : 0));
    running.process.reset();
  }
  for (;;) {  // what is left to wait for are orphans that became ours
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    for (const Running& running : slots_) {
      if (running.process != nullptr && running.process->pid() == info.si_pid) return;  // next turn
    }
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void Agent::Tell(ReportKind kind, size_t slot, const std::string& payload) {
  pending_ += Encode({kind, static_cast<uint32_t>(slot), payload});
}

void Agent::Flush() {
  while (!pending_.empty()) {
    const ssize_t count = ::write(options_.output, pending_.data(), pending_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) orphaned_ = hung_up_ = true;
    if (count <= 0) return;
    pending_.erase(0, count);
  }
}

bool Agent::AllEnded() const {
  for (const Running& running : slots_) {
    if (running.process != nullptr) return false;
  }
  return true;
}

void Agent::KillAll() {
  for (Running& running : slots_) {
    if (running.process != nullptr) running.process->Signal(SIGKILL);
  }
}

// A launcher that hung up and lives goes on with the store, in another attempt.
void Agent::RemoveScratch() const {
  if (scratch_.empty() || launcher_ == 0) return;
  const TimePoint deadline = Now() + std::chrono::milliseconds(kDeathMilliseconds);
  while (::getppid() == launcher_) {
    if (Now() > deadline) return;
    ::poll(nullptr, 0, 5);
  }
  std::error_code ignored;  // nobody is left to hear of it
  std::filesystem::remove_all(scratch_, ignored);
}

}  // namespace ringwood
