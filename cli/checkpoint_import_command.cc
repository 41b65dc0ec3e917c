// ringwood checkpoint import
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "cli/checkpoint_flags.h"
#include "client/options/options.h"
#include "launch/signals.h"
#include "server/store/portable/checkpoint_import.h"

namespace ringwood {
namespace {

struct ImportFlags {
  CheckpointFlags common;
  ImportRequest request;
  std::string job;
};

// One word for a shell.
std::string ShellWord(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char letter) {
    return absl::ascii_isalnum(letter) || absl::StrContains("/._-+=:,@%", letter);
  });
  return plain ? text : "'" + absl::StrReplaceAll(text, {{"'", "'\\''"}}) + "'";
}

Status Import(CommandContext* context, ImportFlags* flags) {
  KeepStorePrivate();
  ImportRequest& request = flags->request;
  if (!flags->common.further().empty()) {
    return Invalid("an import writes a whole checkpoint into one store: give one --store");
  }
  request.store = flags->common.store();
  request.unix_seconds = std::time(nullptr);
  request.job = Unpredictable();
  if (!flags->job.empty()) {
    const StatusOr<uint64_t> job = ParseJob(flags->job);
    if (!job.ok()) return Annotate(job.status(), "--job");
    if (*job == 0) return Invalid("--job: 0 is no job");
    request.job = *job;
  }
  SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP};
  int signal = 0;
  const auto imported = [&] {
    ProgressBar bar("importing");
    return ImportCheckpoint(
        request, [&, shown = ShownOn(&bar)](const CheckpointId& id, uint64_t done, uint64_t all) {
          signal = signals.Next();
          return signal == 0 ? shown(id, done, all) : Aborted("ended by a signal");
        });
  }();
  if (signal != 0) {
    Log(LogLevel::kWarning, "ended by a signal: nothing was imported");
    context->exit_code = 128 + signal;
    return OkStatus();
  }
  RW_RETURN_IF_ERROR(imported.status());
  const int tensors = imported->items_size() - 1;  // and the file's header
  const std::string job = JobName(request.job);
  if (flags->common.json) {
    PrintJson({{"job", job},
               {"epoch", imported->epoch()},
               {"step", imported->step()},
               {"tensors", tensors},
               {"bytes", imported->bytes()}});
    return OkStatus();
  }
  std::printf(
      "step %s of epoch %s, job %s: %s, %s\n"
      "  `ringwood run --store %s --resume-job %s` begins with these weights; optimizer, data "
      "position and random\n  states are not in the file and begin anew\n",
      std::to_string(imported->step()).c_str(), std::to_string(imported->epoch()).c_str(),
      job.c_str(), FormatCount(tensors, "tensor").c_str(),
      FormatBytes(static_cast<double>(imported->bytes())).c_str(), ShellWord(request.store).c_str(),
      job.c_str());
  return OkStatus();
}

}  // namespace

void AddCheckpointImport(Command parent, CommandContext* context) {
  Command command = parent.Subcommand(
      "import", "Make a checkpoint of a model's weights, from which a job of any size resumes");
  command.Footer(
      "Example: ringwood checkpoint import --store ./store --safetensors "
      "model.safetensors");
  auto flags = std::make_shared<ImportFlags>();
  AddStoreFlags(command, &flags->common);
  command.Value("--safetensors", &flags->request.file, "Read this file, in the safetensors format")
      .Takes("FILE")
      .Required();
  command.Value("--step", &flags->request.step, "Let the job count on from this step")
      .Takes("NUMBER")
      .ShowDefault();
  command.Value("--job", &flags->job, "Let this job resume from it; without it a new one")
      .Takes("JOB");
  command.Run(context, [context, flags] { return Import(context, flags.get()); });
}

}  // namespace ringwood
