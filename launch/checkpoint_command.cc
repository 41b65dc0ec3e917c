#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "launch/command.h"
#include "launch/table.h"
#include "server/checkpoint_list.h"

namespace ringwood {
namespace {

struct CheckpointFlags {
  std::string store;
  uint64_t step = 0;
  bool json = false;
};

std::string LocalTime(int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  char text[32];
  if (::localtime_r(&time, &parts) == nullptr) return "?";
  return std::string(text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts));
}

std::string State(const CheckpointSummary& checkpoint) {
  if (!checkpoint.problem.empty()) return checkpoint.problem;
  return checkpoint.complete ? "complete" : "incomplete";
}

void PrintTable(const std::vector<CheckpointSummary>& list) {
  std::vector<std::vector<std::string>> rows = {
      {"STEP", "EPOCH", "WORLD", "SIZE", "TIME", "STATE"}};
  for (const CheckpointSummary& checkpoint : list) {
    rows.push_back({std::to_string(checkpoint.step), std::to_string(checkpoint.epoch),
                    std::to_string(checkpoint.world),
                    FormatBytes(static_cast<double>(checkpoint.bytes)),
                    LocalTime(checkpoint.unix_seconds), State(checkpoint)});
  }
  std::fputs(FormatTable(rows).c_str(), stdout);
}

void PrintJson(const std::vector<CheckpointSummary>& list) {
  nlohmann::json json = nlohmann::json::array();
  for (const CheckpointSummary& checkpoint : list) {
    json.push_back({{"step", checkpoint.step},
                    {"epoch", checkpoint.epoch},
                    {"world", checkpoint.world},
                    {"bytes", checkpoint.bytes},
                    {"unix_seconds", checkpoint.unix_seconds},
                    {"complete", checkpoint.complete},
                    {"problem", checkpoint.problem}});
  }
  std::printf("%s\n", json.dump(2).c_str());
}

Status List(const CheckpointFlags& flags) {
  RW_ASSIGN_OR_RETURN(const auto list, ListCheckpoints(flags.store));
  if (flags.json) {
    PrintJson(list);
  } else if (list.empty()) {
    std::printf("no checkpoints in %s\n", flags.store.c_str());
  } else {
    PrintTable(list);
  }
  return OkStatus();
}

Status Show(const CheckpointFlags& flags) {
  RW_ASSIGN_OR_RETURN(const std::string text, ShowCheckpoint(flags.store, flags.step));
  if (flags.json) {
    std::printf("%s\n", nlohmann::json({{"step", flags.step}, {"manifest", text}}).dump(2).c_str());
  } else {
    std::fputs(text.c_str(), stdout);
    if (!text.empty() && text.back() != '\n') std::fputs("\n", stdout);
  }
  return OkStatus();
}

// Step 0: every complete checkpoint. The first damage is the answer, after all have been looked at.
Status Verify(const CheckpointFlags& flags) {
  std::vector<CheckpointSummary> list = {{}};
  list[0].step = flags.step;
  list[0].complete = true;
  if (flags.step == 0) {
    RW_ASSIGN_OR_RETURN(list, ListCheckpoints(flags.store));
  }
  Status first;
  nlohmann::json json = nlohmann::json::array();
  for (const CheckpointSummary& checkpoint : list) {
    if (!checkpoint.complete) continue;
    const Status status = VerifyCheckpoint(flags.store, checkpoint.step);
    if (first.ok()) first = status;
    json.push_back(
        {{"step", checkpoint.step}, {"good", status.ok()}, {"problem", Message(status)}});
    if (flags.json) continue;
    std::printf("step %s: %s\n", std::to_string(checkpoint.step).c_str(),
                status.ok() ? "good, every byte" : Message(status).c_str());
  }
  if (flags.json) std::printf("%s\n", json.dump(2).c_str());
  if (json.empty()) return NotFound(flags.store + " holds no complete checkpoint");
  return first;
}

void Add(CLI::App* parent, CommandContext* context, const std::string& name,
         const std::string& help, Status (*act)(const CheckpointFlags&)) {
  CLI::App* command = parent->add_subcommand(name, help);
  auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("--store", flags->store, "The store's directory")->required();
  command->add_flag("--json", flags->json, "For programs");
  if (name != "list") {
    command->add_option("--step,step", flags->step,
                        "Which checkpoint; without it what the command says");
  }
  command->callback([context, flags, act] {
    const Status status = act(*flags);
    if (!status.ok()) FailCommand(context, status);
  });
}

}  // namespace

void AddCheckpointCommand(CLI::App& app, CommandContext* context) {
  CLI::App* parent = app.add_subcommand("checkpoint", "Look into a store, also while it is in use");
  parent->require_subcommand(1);
  Add(parent, context, "list", "What is there, newest first", List);
  Add(parent, context, "show", "One manifest; the newest without --step", Show);
  Add(parent, context, "verify", "Read every byte of one checkpoint; of all without --step",
      Verify);
}

}  // namespace ringwood
