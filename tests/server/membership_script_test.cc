// Membership played from text: tests/server/scripts, and what is below it. A line that starts with
// a word is an event, the indented lines below it are all the actions that must follow, in order.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "paths.h"
#include "server/coordinator/membership.h"
#include "tests/plan/small_plans.h"

namespace ringwood {
namespace {

// "rank=2 host=h1" → values by name; the first word has none.
struct Line {
  std::string verb;
  std::map<std::string, std::string> values;
  bool has(const std::string& key) const { return values.count(key) > 0; }
  uint64_t number(const std::string& key, uint64_t otherwise) const {
    return has(key) ? std::stoull(values.at(key)) : otherwise;
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    return has(key) ? values.at(key) : otherwise;
  }
};

// held=EPOCH:ROUND, and ":prepared" where the next round is, ":receiving", or ":between" steps; of
// job 7.
void AddHeld(const std::string& text, v1::Held* held) {
  std::istringstream parts(text);
  std::string epoch, round, prepared;
  std::getline(parts, epoch, ':');
  std::getline(parts, round, ':');
  std::getline(parts, prepared);
  held->set_job(7);
  held->set_epoch(std::stoull(epoch));
  held->set_round(std::stoull(round));
  held->set_prepared(prepared == "prepared");
  held->set_receiving(prepared == "receiving");
  held->set_between_steps(prepared == "between");
}

Line Parse(const std::string& text) {
  Line line;
  std::istringstream words(text);
  words >> line.verb;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    line.values[word.substr(0, equals)] =
        equals == std::string::npos ? "1" : word.substr(equals + 1);
  }
  return line;
}

v1::JoinRequest JoinOf(const Line& line) {
  v1::JoinRequest request;
  request.set_protocol_version(line.number("version", v1::PROTOCOL_VERSION_CURRENT));
  request.set_role(line.has("server") ? v1::ROLE_REDUCER : v1::ROLE_WORKER);
  request.set_rank(line.number(line.has("server") ? "server" : "rank", 0));
  request.set_world(line.number("world", 2));
  request.set_servers(line.number("servers", 0));
  request.set_host(line.text("host", "h" + std::to_string(request.rank())));
  request.set_incarnation(line.number("incarnation", 100 + request.rank()));
  request.set_resume(line.has("resume"));
  request.set_or_start(line.has("or_start"));
  request.set_job(line.number("named", 0));
  request.set_join_timeout_seconds(line.number("patience", 0));
  request.set_newest_epoch_seen(line.number("seen", 0));
  request.set_max_memory_bytes(line.number("memory", 0));
  request.set_brings_reducer(line.has("brings"));
  if (line.has("held")) AddHeld(line.text("held", ""), request.mutable_held());
  if (line.has("calls")) request.mutable_held()->set_calls(line.number("calls", 0));
  if (line.has("due")) request.mutable_held()->set_checkpoint(true);
  if (line.has("ending")) request.mutable_held()->set_ending(true);
  if (line.has("left")) request.mutable_held()->add_left(line.number("left", 0));
  std::istringstream silent(line.text("silent", ""));
  for (std::string node; std::getline(silent, node, ',');) {
    request.mutable_held()->add_silent(static_cast<uint32_t>(std::stoul(node)));
  }
  return request;
}

template <typename Request>
void Sign(const Line& line, Request* request) {
  request->set_epoch(line.number("epoch", 1));
  request->set_incarnation(line.number("incarnation", 100 + line.number("rank", 0)));
}

// What a member says carries its node: its rank, unless ranks are missing in the epoch.
uint32_t NodeOf(const Line& line) {
  return static_cast<uint32_t>(line.number("node", line.number("rank", 0)));
}

// tensors=a:10,b:20h (h: of bfloat16); of all of them route=auto, density=0.1, momentum=0.9;
// setting wire=bf16.
void AddTensors(const Line& line, v1::AgreeRequest* request) {
  std::istringstream list(line.text("tensors", "a:10"));
  for (std::string tensor; std::getline(list, tensor, ',');) {
    v1::Tensor* added = request->add_tensors();
    added->set_name(tensor.substr(0, tensor.find(':')));
    added->set_elements(std::stoull(tensor.substr(tensor.find(':') + 1)));
    if (tensor.ends_with('h')) added->set_element_bytes(2);
    added->set_route(line.text("route", "dense"));
    added->set_density(std::stod(line.text("density", "0.01")));
    added->set_momentum(std::stod(line.text("momentum", "0")));
  }
  v1::Setting* setting = request->add_settings();
  setting->set_name("wire");
  setting->set_value(line.text("wire", "fp32"));
}

// covers=N: of N tensors, not of all. forged: its hash is another plan's. sparse=N: tensor 0 of N
// elements goes up a tree, every entry of it.
v1::Plan PlanOf(const Line& line, const std::string& planner, int tensors) {
  if (line.has("sparse")) return OneTree(line.number("sparse", 0), planner);
  v1::Plan plan = OneRing(static_cast<uint32_t>(line.number("covers", tensors)), planner);
  if (line.has("forged")) plan.set_hash(plan.hash() + 1);
  return plan;
}

// round=N: its last, with the commit of it; told: it knows the plan, changed=NAME by that commit.
v1::ReattachRequest ReattachOf(const Line& line) {
  v1::ReattachRequest request;
  *request.mutable_joined() = JoinOf(line);
  request.set_epoch(line.number("epoch", 1));
  request.set_node(NodeOf(line));
  request.set_incarnation(request.joined().incarnation());
  request.set_round(line.number("round", line.number("base", 0)));
  if (line.has("told")) {
    request.mutable_table()->set_rank(request.node());
    AddTensors(line, request.mutable_table());
    *request.mutable_table()->mutable_plan() = PlanOf(line, line.text("changed", "exact"), 1);
    request.set_generation(line.has("changed") ? 1 : 0);
  }
  if (!line.has("round")) return request;
  v1::Commit* last = request.mutable_last();
  last->set_epoch(request.epoch());
  last->set_round(request.round());
  last->set_total_weight(16);
  if (!line.has("changed")) return request;
  *last->mutable_plan() = request.table().plan();
  last->set_generation(1);
  return request;
}

Event EventOf(const Line& line) {
  const CallId call = line.number("call", 0);
  if (line.verb == "join") return event::Join{call, JoinOf(line), line.number("job", 7)};
  if (line.verb == "agree") {
    event::Agree agree{call, {}};
    Sign(line, &agree.request);
    agree.request.set_rank(NodeOf(line));
    AddTensors(line, &agree.request);
    if (agree.request.rank() == 0)
      *agree.request.mutable_plan() = PlanOf(line, "exact", agree.request.tensors_size());
    return agree;
  }
  if (line.verb == "vote") {
    event::Vote vote{call, {}};
    Sign(line, &vote.request);
    vote.request.set_rank(NodeOf(line));
    vote.request.set_round(line.number("round", 1));
    vote.request.set_digest(line.number("digest", 5));
    vote.request.set_weight(std::stod(line.text("weight", "8")));
    vote.request.set_non_finite(line.has("nan"));
    vote.request.set_review(line.has("review"));
    vote.request.set_leaving(line.has("leaving"));
    vote.request.set_checkpoint(line.has("checkpoint"));
    vote.request.set_ending(line.has("ending"));
    if (line.has("saves")) vote.request.set_saves(line.number("saves", 0));
    vote.request.set_pass(static_cast<uint32_t>(line.number("pass", 0)));
    if (line.has("plan")) *vote.request.mutable_plan() = PlanOf(line, line.text("plan", ""), 1);
    return vote;
  }
  if (line.verb == "reattach") return event::Reattach{call, ReattachOf(line)};
  if (line.verb == "leave") {
    event::Leave leave{call, {}};
    Sign(line, &leave.request);
    leave.request.set_node(NodeOf(line));
    leave.request.set_failed(line.has("failed"));
    leave.request.set_reason(line.text("failed", ""));
    if (line.has("saves")) leave.request.set_saves(line.number("saves", 0));
    return leave;
  }
  if (line.verb == "beat") {
    event::Heartbeat beat{line.number("stream", 0), {}};
    Sign(line, &beat.beat);
    beat.beat.set_node(NodeOf(line));
    beat.beat.set_step(line.number("step", 0));
    beat.beat.set_progress(line.number("progress", 0));
    beat.beat.set_begun(line.has("begun"));
    beat.beat.set_loaded(line.number("loaded", 0));
    beat.beat.set_call(line.number("call", 0));
    beat.beat.set_saves(line.number("saves", 0));
    beat.beat.set_saving(line.has("saving"));
    beat.beat.set_group_calls(line.number("group_calls", 0));
    if (line.has("missing")) beat.beat.set_missing(line.number("missing", 0));
    return beat;
  }
  if (line.verb == "pull") {
    event::Pull pull{call, {}};
    pull.request.set_job(line.number("job", 0));
    pull.request.set_timeout_seconds(std::stod(line.text("timeout", "30")));
    return pull;
  }
  if (line.verb == "broken") return event::StreamBroken{line.number("stream", 0)};
  if (line.verb == "gone") return event::CallGone{call};
  if (line.verb == "stop") return event::Stop{"the server is stopping"};
  if (line.verb == "persisted") {
    return event::Persisted{line.has("failed") ? Exhausted("no space left") : OkStatus()};
  }
  if (line.verb == "base") {
    if (!line.has("step")) return event::BaseFound{std::optional<CheckpointBase>()};
    return event::BaseFound{CheckpointBase{line.number("job", 7), line.number("epoch", 1),
                                           line.number("step", 0),
                                           static_cast<uint32_t>(line.number("world", 2))}};
  }
  EXPECT_EQ(line.verb, "tick");
  return event::Tick{};
}

std::string Text(const Status& status) {
  return absl::StatusCodeToString(status.code()) + ": " + Message(status);
}
std::string Text(const v1::JoinResponse& joined) {
  std::string text =
      absl::StrFormat("joined job=%d epoch=%d node=%d members=%d step=%d", joined.job(),
                      joined.epoch(), joined.node(), joined.members_size(), joined.base_step());
  if (joined.has_checkpoint()) text += " checkpoint";
  if (!joined.elastic()) return text;
  text += absl::StrFormat(" world=%d base=%d:%d", joined.world(), joined.base_epoch(),
                          joined.base_step());
  if (joined.holders().empty()) return text;
  text += " holders=" + absl::StrJoin(joined.holders(), ",");
  std::vector<uint32_t> on_trial;
  for (const v1::Member& member : joined.members()) {
    if (member.on_trial()) on_trial.push_back(member.node());
  }
  if (!on_trial.empty()) text += " trial=" + absl::StrJoin(on_trial, ",");
  if (joined.calls() != 0) text += absl::StrFormat(" calls=%d", joined.calls());
  if (joined.checkpoint()) text += " due";
  if (joined.ending()) text += " ending";
  return joined.regroup() ? text + " regroup" : text;
}
std::string Text(const v1::AgreeResponse& agreed) {
  return absl::StrFormat("agreed plan=%s from=%d", agreed.plan().planner(), agreed.from_round());
}
std::string Text(const v1::Commit& commit) {
  std::string text =
      absl::StrFormat("commit epoch=%d round=%d weight=%g contributors=%d%s%s", commit.epoch(),
                      commit.round(), commit.total_weight(), commit.contributors_size(),
                      commit.skipped() ? " skipped" : "", commit.review() ? " review" : "");
  if (commit.checkpoint()) text += " checkpoint";
  if (commit.ending()) text += " ending";
  if (commit.checkpoint_wanted()) text += " wanted";
  if (commit.regroup()) text += " regroup";
  for (const uint32_t rank : commit.leaving()) text += absl::StrFormat(" without=%d", rank);
  if (!commit.has_plan()) return text;
  return text +
         absl::StrFormat(" plan=%s generation=%d", commit.plan().planner(), commit.generation());
}
std::string Text(const v1::LeaveResponse&) { return "left"; }
std::string Text(const v1::ReattachResponse&) { return "back"; }
std::string Text(const v1::PullResponse& due) {
  return absl::StrFormat("due job=%d epoch=%d step=%d", due.job(), due.epoch(), due.step());
}

std::string Describe(const action::Reply& reply) {
  return absl::StrFormat("reply %d %s", reply.call,
                         std::visit([](const auto& answer) { return Text(answer); }, reply.answer));
}
std::string Describe(const action::FindBase& find) {
  return absl::StrFormat("find base of job=%d", find.job);
}
std::string Describe(const action::Persist& persist) {
  const v1::EpochRecord& record = persist.record;
  std::string text = absl::StrFormat("persist job=%d epoch=%d base=%d members=%d", record.job(),
                                     record.epoch(), record.base_step(), record.members_size());
  if (record.from_members()) text += absl::StrFormat(" from=%d", record.base_epoch());
  return text;
}
std::string Describe(const action::Activate& activate) {
  return absl::StrFormat("activate epoch=%d", activate.record.epoch());
}
std::string Describe(const action::Notify& notify) {
  const v1::Notice& notice = notify.notice;
  if (notice.has_ended()) return absl::StrFormat("notify %d ended", notify.stream);
  if (notice.has_plan()) {
    const uint64_t round = notice.plan().from_round() % WireRound(1, 0);
    const uint64_t generation = notice.plan().from_round() / WireRound(1, 0);
    return absl::StrFormat("notify %d plan=%s from=%d%s", notify.stream,
                           notice.plan().plan().planner(), round,
                           generation == 0 ? "" : absl::StrFormat(" generation=%d", generation));
  }
  return absl::StrFormat("notify %d %s who=\"%s\" step=%d: %s", notify.stream,
                         notice.failure().recovers() ? "recovers" : "failure",
                         notice.failure().who(), notice.failure().step(),
                         notice.failure().reason());
}
std::string Describe(const action::CloseStream& close) {
  return absl::StrFormat("close %d %s", close.stream, Text(close.status));
}
std::string Describe(const action::Verdict&) { return ""; }  // as the notices say
std::string Describe(const action::Await& await) {
  return "await ranks=" + absl::StrJoin(await.ranks, ",");
}
// The log is not part of the contract, warnings are.
std::string Describe(const action::Report& report) {
  return report.level == LogLevel::kInfo ? "" : "warn " + report.text;
}

// "server": the options, before the first event.
bool Configure(const Line& line, MembershipOptions* options, v1::EpochRecord* record) {
  if (line.verb != "server") return false;
  options->servers = static_cast<int>(line.number("servers", 1));
  options->stall_timeout_seconds = std::stod(line.text("stall", "0"));
  options->elastic = line.has("elastic");
  options->min_world = static_cast<int>(line.number("min", 1));
  options->max_world = static_cast<int>(line.number("max", 0));
  options->straggler_grace_seconds = std::stod(line.text("late", "0"));
  options->reattach_grace_seconds = std::stod(line.text("grace", "0"));
  options->keeps_checkpoints = line.has("store");
  options->has_successor = line.has("successor");
  options->own_reducer = {0, line.number("own", 0)};
  options->hash = [](uint64_t incarnation) { return "#" + std::to_string(incarnation); };
  if (line.has("epoch")) record->set_epoch(line.number("epoch", 0));
  if (line.has("job")) record->set_job(line.number("job", 0));
  return true;
}

// As a server that is started again reads it.
v1::EpochRecord OnDisk(const action::Persist& persist) {
  v1::EpochRecord record = persist.record;
  for (v1::RecordedMember& member : *record.mutable_members()) {
    member.set_incarnation_hash("#" + std::to_string(member.incarnation()));
    member.clear_incarnation();
  }
  return record;
}

class Script : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Script, PlaysAsWritten) {
  std::ifstream file(GetParam());
  ASSERT_TRUE(file.is_open());
  MembershipOptions options;
  v1::EpochRecord record;
  TimePoint now{};
  std::unique_ptr<Membership> membership;
  std::vector<std::string> actions;  // that were not expected yet
  std::string event;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.empty() || text[0] == '#') continue;
    if (text[0] == ' ') {
      const std::string expected = text.substr(text.find_first_not_of(' '));
      ASSERT_FALSE(actions.empty())
          << GetParam() << ":" << number << ": nothing left for: " << text;
      ASSERT_EQ(actions.front(), expected) << GetParam() << ":" << number << " after: " << event;
      actions.erase(actions.begin());
      continue;
    }
    ASSERT_TRUE(actions.empty()) << GetParam() << ":" << number << ": unexpected after " << event
                                 << ": " << actions.front();
    event = text;
    const Line line = Parse(text);
    if (Configure(line, &options, &record)) continue;
    if (line.verb == "restart") {  // with what is on disk
      membership.reset();
      continue;
    }
    if (membership == nullptr) membership = std::make_unique<Membership>(options, record);
    now += Seconds(std::stod(line.text("after", "0")));
    for (const Action& action : membership->On(EventOf(line), now)) {
      if (const auto* persist = std::get_if<action::Persist>(&action)) record = OnDisk(*persist);
      const std::string described = std::visit([](const auto& a) { return Describe(a); }, action);
      if (!described.empty()) actions.push_back(described);
    }
  }
  EXPECT_TRUE(actions.empty()) << "at the end: " << actions.front();
}

std::vector<std::filesystem::path> Scripts() {
  std::vector<std::filesystem::path> scripts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::string(RINGWOOD_SOURCE_DIR) + "/tests/server/scripts")) {
    if (entry.is_regular_file()) scripts.push_back(entry.path());
  }
  std::sort(scripts.begin(), scripts.end());
  return scripts;
}

INSTANTIATE_TEST_SUITE_P(Membership, Script, testing::ValuesIn(Scripts()), [](const auto& info) {
  const std::string folder = info.param.parent_path().filename();
  const std::string name = info.param.stem();
  return folder == "scripts" ? name : folder + "_" + name;
});

}  // namespace
}  // namespace ringwood
