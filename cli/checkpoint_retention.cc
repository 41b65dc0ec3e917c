// ringwood checkpoint prune | pin
#include <cstdio>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/checkpoint_flags.h"
#include "server/store/view/pin.h"
#include "server/store/view/prune.h"

namespace ringwood {
namespace {

struct PruneFlags : CheckpointFlags {
  uint64_t keep = kKeptCheckpoints;
  uint64_t every = 0;
  bool dry_run = false;
};

struct PinFlags : CheckpointFlags {
  std::string label;
  bool unpin = false;
};

nlohmann::json NamedList(const std::vector<CheckpointSummary>& list) {
  nlohmann::json json = nlohmann::json::array();
  for (const CheckpointSummary& each : list) {
    json.push_back({{"step", each.step},
                    {"epoch", each.epoch},
                    {"job", each.job == 0 ? "" : JobName(each.job)},
                    {"bytes", each.bytes},
                    {"problem", each.problem}});
  }
  return json;
}

Status PruneCheckpoints(const PruneFlags& flags) {
  KeepStorePrivate();
  const auto pruned = [&] {
    ProgressBar bar("verifying what stays");
    return PruneStore(flags.store(), {flags.keep, flags.every}, flags.dry_run, ShownOn(&bar),
                      flags.further());
  }();
  RW_RETURN_IF_ERROR(pruned.status());
  if (flags.json) {
    PrintJson({{"dry_run", flags.dry_run},
               {"removed", NamedList(pruned->removed)},
               {"damaged", NamedList(pruned->damaged)}});
    return OkStatus();
  }
  for (const CheckpointSummary& each : pruned->damaged) {
    std::printf("step %s of epoch %s does not count, it is damaged: %s\n",
                std::to_string(each.step).c_str(), std::to_string(each.epoch).c_str(),
                each.problem.c_str());
  }
  for (const CheckpointSummary& each : pruned->removed) {
    std::printf("%s step %s of epoch %s, %s\n", flags.dry_run ? "would remove" : "removed",
                std::to_string(each.step).c_str(), std::to_string(each.epoch).c_str(),
                FormatBytes(static_cast<double>(each.bytes)).c_str());
  }
  if (pruned->removed.empty()) std::printf("nothing to remove in %s\n", flags.store().c_str());
  return OkStatus();
}

Status Pin(const PinFlags& flags) {
  KeepStorePrivate();
  if (flags.unpin && !flags.label.empty()) return Invalid("--unpin and --label: choose one");
  RW_ASSIGN_OR_RETURN(const CheckpointId id,
                      flags.unpin ? UnpinCheckpoint(flags.store(), flags.wanted)
                                  : PinCheckpoint(flags.store(), flags.wanted, flags.label));
  if (flags.json) {
    PrintJson({{"step", id.step}, {"epoch", id.epoch}, {"pinned", !flags.unpin}});
    return OkStatus();
  }
  std::printf("step %s of epoch %s is %s\n", std::to_string(id.step).c_str(),
              std::to_string(id.epoch).c_str(),
              flags.unpin ? "pinned no more" : "pinned: nothing removes it until --unpin");
  return OkStatus();
}

}  // namespace

void AddCheckpointRetention(Command parent, CommandContext* context) {
  Command prune =
      parent.Subcommand("prune", "Remove what need not be kept, from a store that no server uses");
  prune.Footer(
      "A server prunes by itself after each checkpoint. What is kept is verified first; damaged\n"
      "checkpoints do not count.");
  auto pruning = std::make_shared<PruneFlags>();
  AddStoreFlags(prune, pruning.get());
  prune.Value("--keep", &pruning->keep, "Keep this many of the newest good checkpoints of each job")
      .Takes("NUMBER")
      .AtLeast(static_cast<double>(kKeptCheckpoints))
      .ShowDefault();
  prune
      .Value("--keep-every", &pruning->every,
             "Keep the first checkpoint from each multiple of this many steps on, too; 0: do not")
      .Takes("STEPS")
      .ShowDefault();
  prune.Switch("--dry-run", &pruning->dry_run, "Only say what would be removed");
  prune.Run(context, [pruning] { return PruneCheckpoints(*pruning); });

  Command pin = parent.Subcommand(
      "pin", "Keep a checkpoint, of --step or else the newest, for ever; also beside a server");
  auto pinning = std::make_shared<PinFlags>();
  AddStoreFlags(pin, pinning.get());
  AddChoiceFlags(pin, pinning.get());
  pin.Value("--label", &pinning->label, "Say what for, in `ringwood checkpoint list`")
      .Takes("TEXT");
  pin.Switch("--unpin", &pinning->unpin, "Let it go again");
  pin.Run(context, [pinning] { return Pin(*pinning); });
}

}  // namespace ringwood
