#include <sys/stat.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "cli/checkpoint_flags.h"
#include "cli/command.h"

namespace ringwood {

std::string JobName(uint64_t job) { return absl::StrFormat("%016x", job); }

void PrintJson(const nlohmann::json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

ReadProgress ShownOn(ProgressBar* bar) {
  return [bar](const CheckpointId&, uint64_t done, uint64_t all) {
    bar->Show(done, all);
    return OkStatus();
  };
}

// What lies in a store holds what a stranger could pose as a rank with.
void KeepStorePrivate() { ::umask(077); }

void AddStoreFlags(Command command, CheckpointFlags* flags) {
  command
      .Value(
          "--store", &flags->stores,
          "Look into this directory; of a job with --stores the coordinator's, then each that has "
          "parts of its checkpoints on other hosts (repeatable)")
      .Takes("DIRECTORY")
      .OneAtATime()
      .Required();
  command.Switch("--json", &flags->json, "Print JSON");
}

void AddChoiceFlags(Command command, CheckpointFlags* flags) {
  const std::string what = "Choose the checkpoint of this step";
  const Flag step = command.Value("--step", &flags->wanted.step, what).Takes("NUMBER");
  command.Value("step", &flags->wanted.step, what + ", as --step does")
      .Takes("NUMBER")
      .Excludes(step);
  command
      .Value("--epoch", &flags->wanted.epoch,
             "Choose the one of this epoch where several have that step")
      .Takes("NUMBER");
}

void AddCheckpointCommand(Command app, CommandContext* context) {
  Command parent = app.Subcommand("checkpoint", "Look at the checkpoints of a store, and use them");
  parent.NeedsSubcommand();
  AddCheckpointLook(parent, context);
  AddCheckpointExport(parent, context);
  AddCheckpointImport(parent, context);
  AddCheckpointRetention(parent, context);
}

}  // namespace ringwood
