// What the checkpoint commands have in common.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/progress_bar.h"
#include "cli/command.h"
#include "server/store/checkpoint_reader.h"
#include "server/store/portable/export_plan.h"

namespace ringwood {

struct CheckpointFlags {
  std::vector<std::string> stores;  // the first, then those that have parts of its checkpoints
  const std::string& store() const { return stores.front(); }
  std::vector<std::string> further() const { return {stores.begin() + 1, stores.end()}; }
  WantedCheckpoint wanted;
  bool json = false;
};

// Whatever the process writes from now on is for this user alone, as a server has it.
void KeepStorePrivate();

// --store and --json.
void AddStoreFlags(Command command, CheckpointFlags* flags);
// --step, also as a word, and --epoch.
void AddChoiceFlags(Command command, CheckpointFlags* flags);

std::string JobName(uint64_t job);  // as --resume-job takes it

void PrintJson(const nlohmann::json& json);

// Shows what it is told; borrows the bar.
ReadProgress ShownOn(ProgressBar* bar);

// What a reader of an exported file may want to know; "format" is what other tools ask for.
std::map<std::string, std::string> FileMetadata(const v1::CheckpointManifest& manifest);
// What a file holds, and what was left out.
void PrintExported(const std::string& file, const v1::CheckpointManifest& manifest,
                   const ExportPlan& plan);

void AddCheckpointLook(Command parent, CommandContext* context);       // list, show, verify
void AddCheckpointExport(Command parent, CommandContext* context);     // export
void AddCheckpointImport(Command parent, CommandContext* context);     // import
void AddCheckpointRetention(Command parent, CommandContext* context);  // prune, pin

}  // namespace ringwood
