#include "doctor/survey.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "doctor/facts_json.h"
#include "doctor/host_calls.h"
#include "doctor/pairs.h"
#include "launch/signals.h"

namespace ringwood {
namespace {

constexpr char kListening[] = "doctor listens on ";
constexpr double kHostSeconds = 90;           // a slow remote shell and a slow disk
constexpr double kPairSeconds = 60;           // the same, and a slow network
constexpr double kWorkerSilenceSeconds = 15;  // as in launch/run_jobs.cc

Job WorkerJob(const SurveyRequest& request, const Host& host, std::vector<std::string> arguments) {
  Job job;
  job.host = host.name;
  if (host.name != "localhost") job.silence_seconds = kWorkerSilenceSeconds;
  job.directory = request.directory;
  job.command = {host.name == "localhost" ? request.reach.program : request.reach.remote_program,
                 "doctor-worker", "--host=" + host.name};
  job.command.insert(job.command.end(), arguments.begin(), arguments.end());
  job.environment["RINGWOOD_TOKEN"] = request.token;
  job.slots.push_back({"doctor", {}});
  return job;
}

Job HostJob(const SurveyRequest& request, size_t index, bool serve) {
  const Host& host = request.hosts[index];
  std::vector<std::string> arguments = {absl::StrFormat("--slots=%d", std::max(1, host.slots))};
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (!value.empty()) arguments.push_back(flag + "=" + value);
  };
  add("--network-interface", request.network_interface);
  add("--port-range", request.port_range);
  add("--transport", request.transport);
  if (index == 0) add("--store", request.store);
  if (request.trusted_fabric) arguments.push_back("--trusted-fabric");
  if (serve) arguments.push_back("--serve");
  return WorkerJob(request, host, std::move(arguments));
}

// Whether the line of facts has come in full, and the line after it where the host serves peers.
bool Told(const HostCalls::Call& call, bool serve) {
  const size_t line = call.output.find('\n');
  if (line == std::string::npos) return false;
  return !serve || call.output.find('\n', line + 1) != std::string::npos;
}

HostFacts AnswerOf(const HostCalls::Call& call, const Host& host) {
  const size_t line = call.output.find('\n');
  HostFacts unknown;
  unknown.host = host.name;
  unknown.slots = std::max(1, host.slots);
  unknown.error = call.error.empty() ? "its worker ended without an answer" : call.error;
  if (line == std::string::npos) return unknown;
  StatusOr<HostFacts> facts = HostFromJson(call.output.substr(0, line));
  if (facts.ok()) return *std::move(facts);
  unknown.error = Message(facts.status());
  return unknown;
}

int PortOf(const HostCalls::Call& call) {
  const size_t found = call.output.find(kListening);
  if (found == std::string::npos) return 0;
  return std::atoi(call.output.c_str() + found + sizeof kListening - 1);
}

class Measurer {
 public:
  Measurer(const SurveyRequest& request, HostCalls* calls, ClusterFacts* facts)
      : request_(request), calls_(*calls), facts_(*facts) {}

  void Run(const PairRound& pairs) {
    const size_t first = calls_.size();
    std::vector<std::pair<int, int>> started;
    for (const auto& [from, to] : pairs) {
      const HostFacts& target = facts_.hosts[to];
      const int port = PortOf(calls_[to]);
      if (!facts_.hosts[from].error.empty() || !target.error.empty()) continue;
      if (port == 0 || facts_.hosts[from].address.empty()) {
        if (target.interface_error.empty()) AddFailure(from, to, "it does not listen");
        continue;
      }
      calls_.Start(WorkerJob(request_, request_.hosts[from],
                             {"--peer=" + target.host, "--address=" + target.address,
                              absl::StrFormat("--port=%d", port)}));
      started.emplace_back(from, to);
    }
    calls_.Await(first, Now() + Seconds(kPairSeconds), [](const auto&) { return false; });
    for (size_t i = 0; i < started.size(); ++i) {
      const HostCalls::Call& call = calls_[first + i];
      auto link = LinkFromJson(call.output.substr(0, call.output.find('\n')));
      if (call.error.empty() && link.ok()) {
        facts_.links.push_back(*std::move(link));
      } else {
        AddFailure(started[i].first, started[i].second,
                   call.error.empty() ? Message(link.status()) : call.error);
      }
    }
  }

 private:
  void AddFailure(int from, int to, const std::string& why) {
    LinkFacts link;
    link.from = facts_.hosts[from].host;
    link.to = facts_.hosts[to].host;
    link.error = "the pair could not be measured: " + why;
    link.busy = true;
    facts_.links.push_back(link);
  }

  const SurveyRequest& request_;
  HostCalls& calls_;
  ClusterFacts& facts_;
};

}  // namespace

std::string ListeningLine(int port) { return absl::StrFormat("%s%d", kListening, port); }

ClusterFacts Survey(const SurveyRequest& request,
                    const std::function<void(int done, int all)>& progress) {
  SignalDescriptor signals{SIGPIPE};  // a worker that is gone does not read
  ClusterFacts facts;
  const int count = static_cast<int>(request.hosts.size());
  const bool serve = request.links && count > 1;
  const std::vector<PairRound> rounds = serve ? PairRounds(count) : std::vector<PairRound>();
  const int steps = 1 + static_cast<int>(rounds.size());
  HostCalls calls(request.reach);
  for (size_t i = 0; i < request.hosts.size(); ++i) calls.Start(HostJob(request, i, serve));
  calls.Await(0, Now() + Seconds(kHostSeconds),
              [serve](const HostCalls::Call& call) { return Told(call, serve); });
  for (int i = 0; i < count; ++i) facts.hosts.push_back(AnswerOf(calls[i], request.hosts[i]));
  progress(1, steps);
  Measurer measurer(request, &calls, &facts);
  for (size_t round = 0; round < rounds.size(); ++round) {
    measurer.Run(rounds[round]);
    progress(2 + static_cast<int>(round), steps);
  }
  facts.links_measured = serve;
  return facts;
}

}  // namespace ringwood
