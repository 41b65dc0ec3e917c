// ringwood pull
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "cli/checkpoint_flags.h"
#include "cli/flags/access_flags.h"
#include "client/grpc/reader_client.h"
#include "client/options/options.h"
#include "client/pull/pull.h"
#include "launch/network.h"
#include "proto/addresses.h"
#include "server/store/portable/export_plan.h"
#include "server/store/portable/part_file.h"

namespace ringwood {
namespace {

struct PullFlags {
  PullOptions options;
  std::string job;
  ServerAccess access;
  std::string file;
  std::vector<std::string> items;
  int rank = -1;  // none
  bool json = false;
};

// FILE appears when it is whole.
Status WriteFile(const std::string& file, const ExportPlan& plan, Pulled* pulled) {
  RW_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(plan.file));
  const uint64_t all = plan.file.DataBytes();
  RW_ASSIGN_OR_RETURN(const auto part, PartFile::Create(file, header.size() + all));
  RW_RETURN_IF_ERROR(part->Append(header));
  ProgressBar bar(absl::StrFormat("pulling step %d", pulled->manifest().step()));
  uint64_t done = 0;
  const auto append = [&](std::span<const std::byte> bytes) -> Status {
    RW_RETURN_IF_ERROR(
        part->Append(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    done += bytes.size();
    bar.Show(done, all);
    return OkStatus();
  };
  for (const v1::StoredItem* item : plan.sources) {
    RW_RETURN_IF_ERROR(pulled->Read(*item, append));
  }
  return part->Publish();
}

// Of a store: of whom it names as long as this lives.
std::unique_ptr<ReaderClient> ClientOf(const CommandContext& context, const ServerAccess& access,
                                       FoundServer server) {
  const ServerPlace place{server.address, server.access, server.start};
  if (!access.server.empty()) return MakeGrpcReaderClient(place);
  return MakeGrpcReaderClient(
      place, [&context, access, known = std::move(server)]() mutable -> std::optional<ServerPlace> {
        std::optional<FoundServer> other = FindAnother(context.environment, access, known);
        if (!other.has_value() || !CheckEndpoints(other->address).ok()) return std::nullopt;
        known = *std::move(other);
        return ServerPlace{known.address, known.access, known.start};
      });
}

StatusOr<std::unique_ptr<Pulled>> OpenPull(const CommandContext& context, PullFlags* flags) {
  if (!flags->job.empty()) {
    const StatusOr<uint64_t> job = ParseJob(flags->job);
    if (!job.ok()) return Annotate(job.status(), "--job");
    flags->options.job = *job;
  }
  RW_ASSIGN_OR_RETURN(FoundServer server, FindServer(context.environment, flags->access));
  RW_RETURN_IF_ERROR(CheckEndpoints(server.address));
  flags->options.server = server.address;
  auto pulled = Pulled::Open(flags->options, ClientOf(context, flags->access, std::move(server)));
  if (pulled.status().code() != StatusCode::kPermissionDenied) return pulled;
  return Denied(Message(pulled.status()) +
                ", or name the server's directory of checkpoints with --store");
}

Status ExecutePull(const CommandContext& context, PullFlags* flags) {
  // What stands against the file is said before a checkpoint is waited for.
  RW_RETURN_IF_ERROR(PartFile::Create(flags->file, 0).status());
  RW_ASSIGN_OR_RETURN(const auto pulled, OpenPull(context, flags));
  const v1::CheckpointManifest& manifest = pulled->manifest();
  ItemChoice choice{flags->items, std::nullopt};
  if (flags->rank >= 0) choice.rank = static_cast<uint32_t>(flags->rank);
  RW_ASSIGN_OR_RETURN(ExportPlan plan, PlanExport(manifest, choice));
  plan.file.metadata = FileMetadata(manifest);
  RW_RETURN_IF_ERROR(WriteFile(flags->file, plan, pulled.get()));
  const int64_t age = std::max<int64_t>(0, std::time(nullptr) - manifest.unix_seconds());
  if (!flags->json) {
    PrintExported(flags->file, manifest, plan);
    std::printf("  saved %s s ago\n", std::to_string(age).c_str());
    return OkStatus();
  }
  ringwood::PrintJson({{"file", flags->file},
                       {"step", manifest.step()},
                       {"epoch", manifest.epoch()},
                       {"job", JobName(manifest.job())},
                       {"tensors", plan.file.tensors.size()},
                       {"bytes", plan.file.DataBytes()},
                       {"age_seconds", age},
                       {"untyped", plan.untyped},
                       {"of_ranks", plan.of_ranks},
                       {"unchosen", plan.unchosen}});
  return OkStatus();
}

}  // namespace

void AddPullCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand(
      "pull", "Get the newest committed weights of a job that runs, or of its store");
  command.Footer(
      "Example: ringwood pull --store ./store --out model.safetensors\n"
      "The ranks save a checkpoint of what they commit next, when it costs them little, and all "
      "of\n"
      "the file is of that step. What is below \"model/\" has the names of the model's "
      "state_dict.");
  auto flags = std::make_shared<PullFlags>();
  AddServerAccessFlags(command, "--server", "server", &flags->access);
  command.Value("--out", &flags->file, "Write this file, in the safetensors format")
      .Takes("FILE")
      .Required();
  command.Value("--job", &flags->job, "Get this job's; without it of the one that runs")
      .Takes("JOB");
  command
      .Value("--items,--item", &flags->items,
             "Take the items or tensors of these names, \"*\" and \"?\" as in a shell; without it "
             "the model's state_dict")
      .Takes("PATTERN");
  command.Value("--rank", &flags->rank, "Take what this rank has of its own, too")
      .Takes("NUMBER")
      .Within(0, kMaxRanks);
  command.Switch(
      "--newest-stored", &flags->options.newest_stored,
      "Take the newest checkpoint of the store: the ranks are not asked, and none need run");
  command
      .Value("--timeout", &flags->options.timeout_seconds,
             "Wait this long for the checkpoint to be there")
      .Takes("SECONDS")
      .ShowDefault()
      .Within(0.1, kMaxPullSeconds);
  command.Switch("--json", &flags->json, "Print JSON");
  command.Run(context, [context, flags] { return ExecutePull(*context, flags.get()); });
}

}  // namespace ringwood
