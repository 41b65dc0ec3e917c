// ringwood checkpoint export
#include <cstdio>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "base/version.h"
#include "cli/checkpoint_flags.h"
#include "server/store/portable/checkpoint_export.h"
#include "server/store/view/parts_view.h"
#include "server/store/view/store_view.h"

namespace ringwood {
namespace {

struct ExportFlags : CheckpointFlags {
  std::string file;
  std::vector<std::string> items;
  int rank = -1;  // none
};

Status Export(const ExportFlags& flags) {
  RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(flags.store()));
  RW_ASSIGN_OR_RETURN(const PartsView parts, PartsView::Open(flags.stores));
  RW_ASSIGN_OR_RETURN(const auto manifest, view.reader().Find(flags.wanted));
  ItemChoice choice{flags.items, std::nullopt};
  if (flags.rank >= 0) choice.rank = static_cast<uint32_t>(flags.rank);
  RW_RETURN_IF_ERROR(parts.CheckThere(manifest));
  RW_ASSIGN_OR_RETURN(ExportPlan plan, PlanExport(manifest, choice));
  plan.file.metadata = FileMetadata(manifest);
  {
    ProgressBar bar(absl::StrFormat("exporting step %d", manifest.step()));
    const Status written = ExportCheckpoint(
        [&](const v1::StoredItem& item, const v1::StoredChunk& chunk) {
          return parts.Chunk(view.reader(), manifest, item, chunk);
        },
        manifest, plan, flags.file, ShownOn(&bar));
    RW_RETURN_IF_ERROR(ExplainRead(flags.store(), {manifest.epoch(), manifest.step()}, written));
  }
  if (!flags.json) {
    PrintExported(flags.file, manifest, plan);
    return OkStatus();
  }
  PrintJson({{"file", flags.file},
             {"step", manifest.step()},
             {"epoch", manifest.epoch()},
             {"job", JobName(manifest.job())},
             {"tensors", plan.file.tensors.size()},
             {"bytes", plan.file.DataBytes()},
             {"untyped", plan.untyped},
             {"of_ranks", plan.of_ranks},
             {"unchosen", plan.unchosen}});
  return OkStatus();
}

}  // namespace

std::map<std::string, std::string> FileMetadata(const v1::CheckpointManifest& manifest) {
  return {{"format", "pt"},
          {"ringwood.version", Version()},
          {"ringwood.job", JobName(manifest.job())},
          {"ringwood.epoch", std::to_string(manifest.epoch())},
          {"ringwood.step", std::to_string(manifest.step())},
          {"ringwood.world", std::to_string(manifest.world())}};
}

void PrintExported(const std::string& file, const v1::CheckpointManifest& manifest,
                   const ExportPlan& plan) {
  const int tensors = static_cast<int>(plan.file.tensors.size());
  const std::string size = FormatBytes(static_cast<double>(plan.file.DataBytes()));
  std::printf("%s: %s, %s, of step %s (epoch %s, job %s)\n", file.c_str(),
              FormatCount(tensors, "tensor").c_str(), size.c_str(),
              std::to_string(manifest.step()).c_str(), std::to_string(manifest.epoch()).c_str(),
              JobName(manifest.job()).c_str());
  const auto note = [](size_t count, const char* text) {
    if (count == 0) return;
    std::printf("  %s %s\n", FormatCount(static_cast<int>(count), "item").c_str(), text);
  };
  note(plan.untyped, "without type and shape: exported as bytes (U8)");
  note(plan.of_ranks, "left out, which each rank has of its own: --rank R takes those of rank R");
  note(plan.unchosen, "of other state left out: --items '*' takes all");
}

void AddCheckpointExport(Command parent, CommandContext* context) {
  Command command = parent.Subcommand(
      "export", "Write tensors of a checkpoint, of --step or else the newest, into a file");
  command.Footer(
      "Example: ringwood checkpoint export --store ./store --safetensors model.safetensors\n"
      "What is below \"model/\" has the names of the model's state_dict in the file.");
  auto flags = std::make_shared<ExportFlags>();
  AddStoreFlags(command, flags.get());
  AddChoiceFlags(command, flags.get());
  command.Value("--safetensors", &flags->file, "Write this file, in the safetensors format")
      .Takes("FILE")
      .Required();
  command
      .Value("--items", &flags->items,
             "Take the items or tensors of these names, \"*\" and \"?\" as in a shell; without it "
             "the model's state_dict")
      .Takes("PATTERN");
  command.Value("--rank", &flags->rank, "Take what this rank has of its own, too")
      .Takes("NUMBER")
      .Within(0, kMaxRanks);
  command.Run(context, [flags] { return Export(*flags); });
}

}  // namespace ringwood
