#include <cstdio>
#include <memory>
#include <sstream>

#include "absl/strings/str_join.h"
#include "base/progress_bar.h"
#include "cli/command.h"
#include "cli/flags/session_flags.h"
#include "doctor/facts_json.h"
#include "doctor/firewall.h"
#include "doctor/host_collector.h"
#include "doctor/kernel_text.h"
#include "doctor/peer_meter.h"
#include "doctor/report.h"
#include "doctor/survey.h"
#include "launch/host_list.h"
#include "proto/job_token.h"

namespace ringwood {
namespace {

// Starts a command of this allocation's on the host that stands behind it.
constexpr char kSlurmShell[] = "srun --overlap --nodes=1 --ntasks=1 --nodelist";

struct DoctorFlags {
  std::string hosts, host_file, rsh;
  SurveyRequest survey;
  bool firewall = false, json = false, no_pairs = false;
};

std::string VariableOf(const CommandContext& context, const std::string& name) {
  const auto found = context.environment.find(name);
  return found == context.environment.end() ? "" : found->second;
}

// Without hosts given: those of the Slurm allocation that this runs in, or this machine.
Status FindHosts(const CommandContext& context, DoctorFlags* flags) {
  SurveyRequest& survey = flags->survey;
  const std::string nodes = VariableOf(context, "SLURM_JOB_NODELIST");
  std::string shell = flags->rsh.empty() ? "ssh" : flags->rsh;
  if (flags->hosts.empty() && flags->host_file.empty() && !nodes.empty()) {
    RW_ASSIGN_OR_RETURN(const auto names, ExpandNodeList(nodes, kMaxRanks));
    RW_ASSIGN_OR_RETURN(survey.hosts, ParseHosts(absl::StrJoin(names, ",")));
    if (flags->rsh.empty()) shell = kSlurmShell;
  } else {
    RW_ASSIGN_OR_RETURN(survey.hosts, HostsGiven(flags->hosts, flags->host_file));
  }
  std::istringstream words(shell);
  for (std::string word; words >> word;) survey.reach.remote_shell.push_back(word);
  return OkStatus();
}

Status CompleteSurvey(const CommandContext& context, DoctorFlags* flags) {
  SurveyRequest& survey = flags->survey;
  RW_RETURN_IF_ERROR(FindHosts(context, flags));
  RW_RETURN_IF_ERROR(ParsePortRange(survey.port_range).status());
  if (survey.hosts.size() > 1 && survey.network_interface.empty()) {
    return Invalid(
        "more than one host needs --network-interface IF, the interface that joins them");
  }
  survey.reach.program = context.program;
  if (survey.reach.remote_program.empty()) survey.reach.remote_program = context.program;
  survey.reach.environment = context.environment;
  survey.directory = context.directory;
  survey.token = NewSecret();
  survey.links = !flags->no_pairs && !flags->firewall;
  return OkStatus();
}

Status PrintFirewall(const ClusterFacts& facts, const std::string& range) {
  RW_ASSIGN_OR_RETURN(const PortRange ports, ParsePortRange(range));
  RW_ASSIGN_OR_RETURN(const FirewallRequest request, FirewallOf(facts, ports));
  std::fputs(NftRules(request).c_str(), stdout);
  return OkStatus();
}

Status ExecuteDoctor(CommandContext* context, DoctorFlags* flags) {
  RW_RETURN_IF_ERROR(CompleteSurvey(*context, flags));
  if (flags->firewall && flags->survey.port_range.empty()) {
    return Invalid(
        "--firewall needs --port-range FIRST-LAST, the ports that the job will be given");
  }
  DoctorReport report;
  {
    ProgressBar bar("asking hosts, measuring pairs");
    report.facts = Survey(flags->survey, [&](int done, int all) { bar.Show(done, all); });
  }
  if (flags->firewall) return PrintFirewall(report.facts, flags->survey.port_range);
  report.findings = Judge(report.facts);
  std::fputs((flags->json ? ToJson(report) : ToText(report)).c_str(), stdout);
  context->exit_code = ExitCodeOf(report.findings);
  return OkStatus();
}

// More than the pairs of any survey take. The launcher ends the worker when it is through, and the
// worker's keeper when the launcher is gone.
constexpr double kServeSeconds = 24 * 3600;

struct DoctorWorkerFlags {
  CollectRequest collect;
  MeasureRequest measure;
  bool serve = false;
};

// Prints a line at once: the other end waits for it.
void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

Status WorkAsDoctor(const CommandContext& context, DoctorWorkerFlags* flags) {
  const std::string token = VariableOf(context, "RINGWOOD_TOKEN");
  if (token.empty()) return Invalid("RINGWOOD_TOKEN is not set; `ringwood doctor` starts this");
  if (!flags->measure.to.empty()) {
    flags->measure.from = flags->collect.host;
    flags->measure.token = token;
    PrintLine(ToJson(MeasurePeer(flags->measure)));
    return OkStatus();
  }
  for (const auto& [name, value] : BuildFacts(context.build)) flags->collect.build[name] = value;
  const HostFacts facts = CollectHost(flags->collect);
  PrintLine(ToJson(facts));
  if (!flags->serve || facts.address.empty() || !facts.ports.error.empty()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const PortRange ports, ParsePortRange(flags->collect.port_range));
  RW_ASSIGN_OR_RETURN(const auto listener, PeerListener::Open(facts.address, ports, token));
  PrintLine(ListeningLine(listener->port()));
  return listener->Serve(Now() + Seconds(kServeSeconds));
}

void AddDoctorWorkerCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("doctor-worker", "One host's part of `ringwood doctor`");
  command.Hide();  // not shown: not started by hand
  auto flags = std::make_shared<DoctorWorkerFlags>();
  CollectRequest& collect = flags->collect;
  command.Value("--host", &collect.host, "The launcher's name of this host").Required();
  command.Value("--slots", &collect.slots, "Ranks that it is to have");
  AddSessionFlag(command, "interface_name", &collect.network_interface);
  command.Value("--port-range", &collect.port_range, "Ports of the job");
  AddSessionFlag(command, "transport", &collect.transport);
  command.Switch("--trusted-fabric", &collect.trusted_fabric, "The network is private");
  command.Value("--store", &collect.store, "Folder to measure");
  command.Switch("--serve", &flags->serve, "Let other hosts measure");
  command.Value("--peer", &flags->measure.to, "Measure the way to this host");
  command.Value("--address", &flags->measure.address, "Its address");
  command.Value("--port", &flags->measure.port, "Its port");
  command.Run(context, [context, flags] { return WorkAsDoctor(*context, flags.get()); });
}

void AddDoctorFlags(Command command, DoctorFlags* flags) {
  SurveyRequest& survey = flags->survey;
  const auto add = [&](const char* names, std::string* value, const char* takes, const char* help) {
    return command.Value(names, value, help).Takes(takes);
  };
  add("-H,--hosts", &flags->hosts, "HOSTS",
      "Look at these hosts with so many ranks each, e.g. h1:4,h2:4; without it at those of the "
      "Slurm allocation it runs in, or at this machine");
  add("--hostfile", &flags->host_file, "FILE",
      "Read the hosts from this file, a line NAME slots=N for each");
  add("--rsh", &flags->rsh, "COMMAND",
      "Reach other hosts by this remote shell, called as COMMAND HOST ringwood worker -")
      .Default("ssh, or srun in a Slurm allocation");
  add("--remote-program", &survey.reach.remote_program, "PATH",
      "Call this ringwood on the other hosts; without it this program's path");
  AddSessionFlag(command, "interface_name", &survey.network_interface)
      .From("RINGWOOD_NETWORK_INTERFACE");
  AddSessionFlag(command, "port_range", &survey.port_range).From("RINGWOOD_PORT_RANGE");
  AddSessionFlag(command, "transport", &survey.transport).From("RINGWOOD_TRANSPORT");
  command
      .Switch("--trusted-fabric", &survey.trusted_fabric,
              "Judge as for a job that is given --trusted-fabric")
      .From("RINGWOOD_TRUSTED_FABRIC");
  add("--store", &survey.store, "DIRECTORY",
      "Measure the disk of this directory of the first host; what is written is removed");
  command.Switch("--no-pairs", &flags->no_pairs, "Do not measure between the hosts");
  command.Switch("--firewall", &flags->firewall,
                 "Print rules for nft that let only these hosts reach the ports of --port-range");
  command.Switch("--json", &flags->json, "Print JSON: facts, findings, verdict");
}

}  // namespace

void AddDoctorCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand(
      "doctor", "Look at hosts and the network between them, and say what is wrong for a job");
  command.Footer(
      "Exit code: 0 where nothing stands against a job, 78 where something has to be changed, 75 "
      "where trying again may help.\n"
      "Example: ringwood doctor -H h1:4,h2:4 --network-interface eth1 --trusted-fabric "
      "--port-range 20000-20099 --store ./store");
  auto flags = std::make_shared<DoctorFlags>();
  AddDoctorFlags(command, flags.get());
  command.Run(context, [context, flags] { return ExecuteDoctor(context, flags.get()); });
  AddDoctorWorkerCommand(app, context);
}

}  // namespace ringwood
