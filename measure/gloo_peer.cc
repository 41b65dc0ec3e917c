#include "measure/gloo_peer.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "launch/process.h"

namespace ringwood {
namespace {

constexpr double kAnswerSeconds = 120;  // importing PyTorch eight times on two cores takes 30 s
constexpr size_t kMaxLine = 4096;       // what a peer says of itself
constexpr size_t kMaxTime = 32;         // of one run, as text

// A line "BYTES RUNS" in, a line "CPU_SECONDS SECONDS SECONDS …" out.
constexpr char kProgram[] = R"(
import os, sys, time
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo", rank=int(os.environ["RANK"]),
                        world_size=int(os.environ["WORLD_SIZE"]))
print("ready", flush=True)
for line in sys.stdin:
    size, runs = map(int, line.split())
    tensor = torch.zeros(size // 4)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor)
    cpu, seconds = time.process_time(), []
    for _ in range(runs):
        start = time.perf_counter()
        dist.all_reduce(tensor)
        seconds.append(time.perf_counter() - start)
    cpu = time.process_time() - cpu
    print(cpu, *seconds, flush=True)
)";

}  // namespace

GlooPeer::GlooPeer(std::unique_ptr<Process> process) : process_(std::move(process)) {}
GlooPeer::~GlooPeer() = default;

StatusOr<std::unique_ptr<GlooPeer>> GlooPeer::Start(
    const std::string& python, const std::map<std::string, std::string>& environment,
    const std::string& interface) {
  ProcessOptions options;
  options.command = {python, "-c", kProgram};
  options.environment = environment;
  options.environment["GLOO_SOCKET_IFNAME"] = interface.empty() ? "lo" : interface;
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has exited is told by write()
  options.feed = true;
  options.inherit_error = true;
  options.die_with_parent = true;
  RW_ASSIGN_OR_RETURN(auto process, Process::Spawn(options));
  std::unique_ptr<GlooPeer> peer(new GlooPeer(std::move(process)));
  RW_ASSIGN_OR_RETURN(const std::string line, peer->ReadLine(1));
  if (line != "ready") return Unavailable("the Gloo peer said: " + line);
  return peer;
}

Status GlooPeer::Run(uint64_t bytes, int runs, BenchSamples* samples) {
  const std::string order = absl::StrFormat("%d %d\n", bytes, runs);
  if (write(process_->input(), order.data(), order.size()) != static_cast<ssize_t>(order.size())) {
    return Unavailable("the Gloo peer has exited");
  }
  RW_ASSIGN_OR_RETURN(const std::string line, ReadLine(runs));
  std::istringstream numbers(line);
  double value = 0;
  if (!(numbers >> value)) return Unavailable("the Gloo peer said: " + line);
  samples->cpu_seconds += value;
  while (numbers >> value) samples->seconds.push_back(value);
  return OkStatus();
}

StatusOr<std::string> GlooPeer::ReadLine(int runs) {
  const double seconds = kAnswerSeconds * runs;
  const size_t longest = kMaxLine + kMaxTime * static_cast<size_t>(runs);
  const TimePoint deadline = Now() + Seconds(seconds);
  for (size_t end = read_.find('\n'); end == std::string::npos; end = read_.find('\n')) {
    if (Now() > deadline) {
      return Unavailable(absl::StrFormat("the Gloo peer did not answer in %.0f s", seconds));
    }
    if (read_.size() > longest) {
      return Unavailable(
          absl::StrFormat("the Gloo peer's answer is longer than %d bytes", longest));
    }
    pollfd output{process_->output(), POLLIN, 0};
    poll(&output, 1, 1000);
    bool closed = false;
    read_ += ReadSome(process_->output(), longest, &closed);
    if (closed && read_.find('\n') == std::string::npos) {
      return Unavailable(
          "the Gloo peer ended; its own lines say why (--python names an interpreter with "
          "PyTorch)");
    }
  }
  const size_t end = read_.find('\n');
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return line;
}

}  // namespace ringwood
