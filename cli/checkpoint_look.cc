// ringwood checkpoint list | show | verify
#include <cstdio>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/log_line.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/checkpoint_flags.h"
#include "server/store/record/manifest.h"
#include "server/store/view/store_view.h"

namespace ringwood {
namespace {

constexpr size_t kShownBytes = 2048;  // of a problem, which names items as their rank called them

std::string State(const CheckpointSummary& checkpoint) {
  if (!checkpoint.problem.empty()) return checkpoint.problem;
  if (!checkpoint.complete) return "incomplete";
  std::string state = "complete";
  if (checkpoint.stores > 1) absl::StrAppendFormat(&state, ", in %d stores", checkpoint.stores);
  if (checkpoint.unread) state += ", not read back: verify it";
  return state;
}

void PrintTable(const std::vector<CheckpointSummary>& list) {
  std::vector<std::vector<std::string>> rows = {
      {"STEP", "EPOCH", "JOB", "WORLD", "SIZE", "STORED", "TIME", "STATE", "PIN"}};
  for (const CheckpointSummary& checkpoint : list) {
    rows.push_back({std::to_string(checkpoint.step), std::to_string(checkpoint.epoch),
                    checkpoint.job == 0 ? "?" : JobName(checkpoint.job),
                    std::to_string(checkpoint.world),
                    FormatBytes(static_cast<double>(checkpoint.bytes)),
                    FormatBytes(static_cast<double>(checkpoint.stored_bytes)),
                    FormatMoment(static_cast<double>(checkpoint.unix_seconds)), State(checkpoint),
                    checkpoint.label.empty() && checkpoint.pinned ? "pinned" : checkpoint.label});
  }
  std::fputs(FormatTable(rows).c_str(), stdout);
}

void PrintListJson(const std::vector<CheckpointSummary>& list) {
  nlohmann::json json = nlohmann::json::array();
  for (const CheckpointSummary& checkpoint : list) {
    json.push_back({{"step", checkpoint.step},
                    {"epoch", checkpoint.epoch},
                    {"job", checkpoint.job == 0 ? "" : JobName(checkpoint.job)},
                    {"world", checkpoint.world},
                    {"bytes", checkpoint.bytes},
                    {"stored_bytes", checkpoint.stored_bytes},
                    {"unix_seconds", checkpoint.unix_seconds},
                    {"complete", checkpoint.complete},
                    {"read_back", checkpoint.complete && !checkpoint.unread},
                    {"stores", checkpoint.stores},
                    {"pinned", checkpoint.pinned},
                    {"label", checkpoint.label},
                    {"problem", checkpoint.problem}});
  }
  PrintJson(json);
}

Status List(const CheckpointFlags& flags) {
  RW_ASSIGN_OR_RETURN(const auto list, ListCheckpoints(flags.store()));
  if (flags.json) {
    PrintListJson(list);
  } else if (list.empty()) {
    std::printf("no checkpoints in %s\n", flags.store().c_str());
  } else {
    PrintTable(list);
  }
  return OkStatus();
}

nlohmann::json AsJson(const v1::CheckpointManifest& manifest) {
  nlohmann::json items = nlohmann::json::array();
  for (const v1::StoredItem& item : manifest.items()) {
    nlohmann::json listed = {{"name", item.name()},
                             {"scope", item.scope() == v1::SCOPE_OWN ? "own" : "shared"},
                             {"bytes", item.bytes()},
                             {"chunks", item.chunks_size()}};
    if (!item.dtype().empty()) {
      listed["dtype"] = item.dtype();
      listed["shape"] = std::vector<uint64_t>(item.shape().begin(), item.shape().end());
    }
    if (item.scope() == v1::SCOPE_OWN) listed["rank"] = item.rank();
    items.push_back(std::move(listed));
  }
  nlohmann::json homes = nlohmann::json::array();
  for (const CheckpointId& home : HomesOf(manifest)) {
    homes.push_back({{"step", home.step}, {"epoch", home.epoch}});
  }
  nlohmann::json parts = nlohmann::json::array();
  for (const v1::CheckpointPart& part : manifest.parts()) {
    parts.push_back({{"store", absl::StrFormat("%016x", part.store())},
                     {"server", part.server()},
                     {"host", part.host()},
                     {"directory", part.directory()},
                     {"bytes", part.bytes()}});
  }
  return {{"step", manifest.step()},        {"epoch", manifest.epoch()},
          {"job", JobName(manifest.job())}, {"world", manifest.world()},
          {"bytes", manifest.bytes()},      {"unix_seconds", manifest.unix_seconds()},
          {"items", std::move(items)},      {"stored_bytes", StoredBytes(manifest)},
          {"homes", std::move(homes)},      {"parts", std::move(parts)}};
}

Status Show(const CheckpointFlags& flags) {
  RW_ASSIGN_OR_RETURN(const auto manifest, ShowCheckpoint(flags.store(), flags.wanted));
  if (flags.json) {
    PrintJson(AsJson(manifest));
  } else {
    std::fputs(ToString(manifest).c_str(), stdout);
  }
  return OkStatus();
}

Status VerifyOne(const CheckpointFlags& flags, const CheckpointSummary& checkpoint) {
  if (checkpoint.damaged) return Corrupt(checkpoint.problem);
  ProgressBar bar(absl::StrFormat("verifying step %d", checkpoint.step));
  return VerifyCheckpoint(flags.store(), CheckpointId{checkpoint.epoch, checkpoint.step},
                          ShownOn(&bar), flags.further());
}

// Those that were asked for; without --step and --epoch all. The first damage is the answer, after
// all have been looked at.
Status Verify(const CheckpointFlags& flags) {
  RW_ASSIGN_OR_RETURN(const auto list, ListCheckpoints(flags.store()));
  Status first;
  nlohmann::json json = nlohmann::json::array();
  for (const CheckpointSummary& checkpoint : list) {
    const bool asked = flags.wanted.Is({checkpoint.epoch, checkpoint.step});
    if ((!checkpoint.complete && !checkpoint.damaged) || !asked) continue;
    const Status status = VerifyOne(flags, checkpoint);
    if (first.ok()) first = status;
    json.push_back({{"step", checkpoint.step},
                    {"epoch", checkpoint.epoch},
                    {"good", status.ok()},
                    {"problem", Message(status)}});
    if (flags.json) continue;
    std::printf("step %s of epoch %s: %s\n", std::to_string(checkpoint.step).c_str(),
                std::to_string(checkpoint.epoch).c_str(),
                status.ok() ? "good, every byte" : Printable(Message(status), kShownBytes).c_str());
  }
  if (flags.json) PrintJson(json);
  if (json.empty()) return NotFound(flags.store() + " holds no such complete checkpoint");
  return first;
}

void AddLook(Command parent, CommandContext* context, const std::string& name,
             const std::string& help, Status (*act)(const CheckpointFlags&)) {
  Command command = parent.Subcommand(name, help);
  auto flags = std::make_shared<CheckpointFlags>();
  AddStoreFlags(command, flags.get());
  if (name != "list") AddChoiceFlags(command, flags.get());
  command.Run(context, [flags, act] { return act(*flags); });
}

}  // namespace

void AddCheckpointLook(Command parent, CommandContext* context) {
  AddLook(parent, context, "list", "List the checkpoints, newest first", List);
  AddLook(parent, context, "show", "Show one manifest: of --step, else of the newest", Show);
  AddLook(parent, context, "verify",
          "Read and check every byte: of --step, else of all checkpoints", Verify);
}

}  // namespace ringwood
