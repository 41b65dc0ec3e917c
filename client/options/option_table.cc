#include "client/options/option_table.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "plan/model/planned_network.h"
#include "plan/strategy/planner.h"
#include "sparse/codec.h"
#include "sparse/group.h"
#include "sparse/selector.h"
#include "transport/open_fabric.h"

namespace ringwood {
namespace {

using S = SessionOptions;
using C = ringwood_options;

constexpr double kTiny = std::numeric_limits<double>::min();
constexpr double kBelowOne = 1 - std::numeric_limits<float>::epsilon();
constexpr double kLargestFloat = std::numeric_limits<float>::max();

Status CheckWire(const std::string& wire) {
  for (const char* known : {"native", "fp32", "bf16", "int8", "int4", "auto"}) {
    if (wire == known) return OkStatus();
  }
  return Invalid("the wire format '" + wire +
                 "' is none of native, fp32, bf16, int8, int4 and auto");
}

Status CheckPlanFor(const std::string& text) {
  return text == kMeasured ? OkStatus() : ParsePlannedNetwork(text).status();
}

// clang-format off
constexpr Option kOptions[] = {
  {.name = "coordinator", .place = OptionPlace{&S::coordinator, &C::coordinator},
   .variables = {"RINGWOOD_COORDINATOR"}, .value = "HOST:PORT", .needed = true,
   .keyword = "coordinator", .section = "Job",
   .help = "Connect to the coordinator at this address; at HOST:PORT,HOST:PORT to the one that "
           "leads"},
  {.name = "rank", .place = OptionPlace{&S::rank, &C::rank},
   .variables = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, .value = "NUMBER",
   .needed = true, .keyword = "rank", .section = "Job",
   .help = "Be this rank, from 0 to world - 1; a spare of an elastic job has a greater one"},
  {.name = "world", .place = OptionPlace{&S::world, &C::world},
   .variables = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, .value = "NUMBER",
   .needed = true, .keyword = "world", .section = "Job",
   .help = "Expect this number of ranks"},
  {.name = "host", .place = OptionPlace{&S::host, &C::host},
   .variables = {"RINGWOOD_HOST", "SLURMD_NODENAME"}, .value = "NAME", .keyword = "host",
   .section = "Job",
   .help = "Name this rank's host; ranks that give the same name share a host. What is read from "
           "the environment has the machine's name where no variable gives one"},
  {.name = "token", .place = OptionPlace{&S::token, &C::token},
   .variables = {"RINGWOOD_TOKEN"}, .value = "TEXT", .section = "Job",
   .help = "Send this secret of the job with every call"},
  {.name = "token_file", .place = OptionPlace{&S::token_file, &C::token_file},
   .variables = {"RINGWOOD_TOKEN_FILE"}, .value = "FILE", .section = "Job",
   .help = "Without a token send the one in this file, which others cannot read"},
  {.name = "identity", .place = OptionPlace{&S::identity, &C::identity},
   .variables = {"RINGWOOD_IDENTITY"}, .value = "FOLDER", .section = "Job",
   .help = "Speak mutual TLS, with the certificate in this folder (ca.pem, cert.pem, key.pem)"},
  {.name = "resume", .place = OptionPlace{&S::resume, &C::resume},
   .variables = {"RINGWOOD_RESUME"}, .value = "1|auto", .keyword = "resume",
   .launcher_flag = "--resume", .section = "Job",
   .help = "Continue from the newest checkpoint, which must exist; with auto start a new job "
           "where there is none"},
  {.name = "job", .place = OptionPlace{&S::job, &C::job},
   .variables = {"RINGWOOD_JOB"}, .value = "JOB", .launcher_flag = "--resume-job",
   .section = "Job",
   .help = "Continue this job, as `ringwood checkpoint list` names it; without resume, name the "
           "new one"},
  {.name = "join_timeout_seconds",
   .place = OptionPlace{&S::join_timeout_seconds, &C::join_timeout_seconds},
   .variables = {"RINGWOOD_JOIN_TIMEOUT"}, .value = "SECONDS",
   .range = {kTiny, 7 * 86400, "above 0, at most a week"}, .keyword = "join_timeout",
   .flag = "--join-timeout", .section = "Job",
   .help = "Wait this long until all servers and ranks are there, and again for the first step"},
  {.name = "coordinator_grace_seconds",
   .place = OptionPlace{&S::coordinator_grace_seconds, &C::coordinator_grace_seconds},
   .variables = {"RINGWOOD_COORDINATOR_GRACE"}, .value = "SECONDS",
   .range = {-1, 86400, "from 0 to a day, or -1"}, .keyword = "coordinator_grace",
   .flag = "--coordinator-grace", .section = "Job",
   .help = "Go on where the coordinator dies and is started again at its address within this time; "
           "0: its death ends the epoch; -1: 30 in an elastic job, else 0"},

  {.name = "interface_name", .place = OptionPlace{&S::network_interface, &C::interface_name},
   .variables = {"RINGWOOD_NETWORK_INTERFACE"}, .value = "NAME", .flag = "--network-interface",
   .section = "Network",
   .help = "Use this network interface for data and control, in the syntax of "
           "NCCL_SOCKET_IFNAME; without it loopback"},
  {.name = "brings_reducer", .place = OptionPlace{&S::brings_reducer, &C::brings_reducer},
   .variables = {"RINGWOOD_BRINGS_REDUCER"}, .section = "Network",
   .help = "Wait for the reducer that this process has started (`ringwood server --coordinator … "
           "--of-rank RANK`) as for the other ranks"},
  {.name = "port_range", .place = OptionPlace{&S::port_range, &C::port_range},
   .variables = {"RINGWOOD_PORT_RANGE"}, .value = "FIRST-LAST",
   .check = [](const std::string& text) { return ParsePortRange(text).status(); },
   .keyword = "port_range", .flag = "--port-range", .section = "Network",
   .help = "Listen on these ports only, e.g. 20000-20099: two for each process, and two more on "
           "the first host"},
  {.name = "trusted_fabric", .place = OptionPlace{&S::trusted_fabric, &C::trusted_fabric},
   .variables = {"RINGWOOD_TRUSTED_FABRIC"}, .flag = "--trusted-fabric", .section = "Network",
   .help = "Declare that only this job's hosts can reach the network: data are exchanged over "
           "UCX, not encrypted"},
  {.name = "transport", .place = OptionPlace{&S::transport, &C::transport},
   .variables = {"RINGWOOD_TRANSPORT"}, .words = {"ucx", "grpc", "auto"},
   .check = CheckTransport, .keyword = "transport", .flag = "--transport", .section = "Network",
   .help = "Exchange data over UCX or gRPC; with auto over gRPC under TLS, or UCX where the "
           "network is private"},

  {.name = "planner", .place = OptionPlace{&S::planner, &C::planner},
   .variables = {"RINGWOOD_PLANNER"}, .value = "NAME", .check = CheckRunnable,
   .keyword = "planner", .flag = "--planner", .agreed = "planner", .section = "Plan",
   .help = "Let this planner decide what is sparse and what is sent together"},
  {.name = "adapt", .place = OptionPlace{&S::adapt, &C::adapt},
   .variables = {"RINGWOOD_ADAPT"}, .keyword = "adapt", .flag = "--adapt", .section = "Plan",
   .help = "Re-plan from measured timings (runs no longer repeat bit for bit)"},
  {.name = "plan_for", .place = OptionPlace{&S::plan_for, &C::plan_for},
   .variables = {"RINGWOOD_PLAN_FOR"}, .value = "NETWORK", .check = CheckPlanFor,
   .keyword = "plan_for", .flag = "--plan-for", .agreed = "network to plan for", .section = "Plan",
   .help = "Plan for this network, e.g. 10gbit, or 100mbit,20ms with the delay between hosts; "
           "measured: for the one that is found when the job begins"},
  {.name = "freeze_plan", .place = OptionPlace{&S::freeze_plan, &C::freeze_plan},
   .variables = {"RINGWOOD_FREEZE_PLAN"}, .value = "FILE", .keyword = "freeze_plan",
   .flag = "--freeze-plan", .section = "Plan",
   .help = "Run the plan in this file of rank 0, and no other"},
  {.name = "save_plan", .place = OptionPlace{&S::save_plan, &C::save_plan},
   .variables = {"RINGWOOD_SAVE_PLAN"}, .value = "FILE", .keyword = "save_plan",
   .flag = "--save-plan", .section = "Plan",
   .help = "Write each plan that the job runs to this file of rank 0"},
  {.name = "profile", .place = OptionPlace{&S::profile, &C::profile},
   .variables = {"RINGWOOD_PROFILE"}, .value = "FILE", .keyword = "profile",
   .flag = "--profile", .section = "Plan",
   .help = "Write the measured timings to this file of rank 0 at the end, for "
           "`ringwood plan --trace`"},

  {.name = "wire", .place = OptionPlace{&S::wire, &C::wire},
   .variables = {"RINGWOOD_WIRE"}, .words = {"native", "fp32", "bf16", "int8", "int4", "auto"},
   .check = CheckWire, .keyword = "wire", .flag = "--wire", .agreed = "wire",
   .section = "Dense tensors",
   .help = "Send dense gradients in their own type (float32 or bfloat16), all as fp32, or rounded "
           "to bf16, int8 or int4 with error feedback; with auto each group as is fastest"},

  {.name = "sparse_codec", .place = OptionPlace{&S::sparse_codec, &C::sparse_codec},
   .variables = {"RINGWOOD_SPARSE_CODEC"}, .value = "INDEX/VALUE",
   .check = [](const std::string& text) { return ParseCodec(text).status(); },
   .keyword = "sparse_codec", .flag = "--sparse-codec", .agreed = "sparse codec",
   .section = "Sparse tensors",
   .help = "Encode the indices of entries as block16 or rice, their values as fp32, bf16, int8, "
           "int4 or int2"},
  {.name = "sparse_merge", .place = OptionPlace{&S::sparse_merge, &C::sparse_merge},
   .variables = {"RINGWOOD_SPARSE_MERGE"}, .words = {"gtopk", "union", "exact"},
   .check = [](const std::string& text) { return ParseMerge(text).status(); },
   .keyword = "sparse_merge", .flag = "--sparse-merge", .agreed = "sparse merge",
   .section = "Sparse tensors",
   .help = "Keep the largest entries of a sum (gtopk; exact: by one threshold for all servers) or "
           "all of them (union)"},
  {.name = "sparse_method", .place = OptionPlace{&S::sparse_method, &C::sparse_method},
   .variables = {"RINGWOOD_SPARSE_METHOD"}, .words = {"exact", "threshold", "gaussian"},
   .check = [](const std::string& text) { return ParseMethod(text).status(); },
   .keyword = "sparse_method", .flag = "--sparse-method", .agreed = "sparse method",
   .section = "Sparse tensors",
   .help = "Find the entries to send by an exact selection, by the threshold of the steps before, "
           "or by one estimated from a Gaussian"},
  {.name = "sparse_chunk", .place = OptionPlace{&S::sparse_chunk, &C::sparse_chunk},
   .variables = {"RINGWOOD_SPARSE_CHUNK"}, .value = "ELEMENTS",
   .range = {0, 1e9, "from 0 to 1000000000"}, .keyword = "sparse_chunk",
   .flag = "--sparse-chunk", .agreed = "sparse chunk", .section = "Sparse tensors",
   .help = "Select in chunks of this many elements, 64 or more; 0: in each tensor as a whole"},
  {.name = "sparse_keep", .place = OptionPlace{&S::sparse_keep, &C::sparse_keep},
   .variables = {"RINGWOOD_SPARSE_KEEP"}, .value = "FACTOR",
   .range = {0, 1e6, "from 0 to 1000000"}, .keyword = "sparse_keep",
   .flag = "--sparse-keep", .agreed = "sparse keep", .section = "Sparse tensors",
   .help = "Keep this multiple of the entries that a rank sends in a result of gtopk or exact; 0: "
           "all that the ranks send, up to 1 % of the tensors"},
  {.name = "momentum_masking",
   .place = OptionPlace{&S::momentum_masking, &C::momentum_masking},
   .variables = {"RINGWOOD_MOMENTUM_MASKING"}, .keyword = "momentum_masking",
   .flag = "--momentum-masking", .agreed = "momentum masking", .section = "Sparse tensors",
   .help = "Reset the velocity of entries that were applied (momentum factor masking, DGC), while "
           "the density is at most 5 %"},
  {.name = "warmup_steps", .place = OptionPlace{&S::warmup_steps, &C::warmup_steps},
   .variables = {"RINGWOOD_WARMUP_STEPS"}, .value = "STEPS",
   .range = {0, 1e9, "from 0 to 1000000000"}, .keyword = "warmup_steps",
   .flag = "--density-warmup", .agreed = "warm-up steps", .section = "Sparse tensors",
   .help = "Lower the density of sparse tensors from 0.25 to their own over the job's first steps; "
           "0: no warm-up"},
  {.name = "momentum", .place = OptionPlace{&S::momentum, &C::momentum},
   .variables = {"RINGWOOD_MOMENTUM"}, .value = "FACTOR",
   .range = {0, kBelowOne, "from 0 to below 1"}, .keyword = "momentum",
   .section = "Sparse tensors",
   .help = "Apply momentum correction to sparse tensors; 0: none"},
  {.name = "clip_norm", .place = OptionPlace{&S::clip_norm, &C::clip_norm},
   .variables = {"RINGWOOD_CLIP_NORM"}, .value = "NORM",
   .range = {0, kLargestFloat, "of 0 (none) or more"}, .keyword = "clip_norm",
   .flag = "--clip-norm", .section = "Sparse tensors",
   .help = "Clip a rank's sparse gradients to this norm / sqrt(ranks) before they enter the "
           "residual; 0: do not clip"},

  {.name = "checkpoint_arena_mb",
   .place = OptionPlace{&S::checkpoint_arena_mb, &C::checkpoint_arena_mb},
   .variables = {"RINGWOOD_CHECKPOINT_ARENA"}, .value = "MB",
   .range = {kTiny, 1e9, "above 0, at most 1000000000"}, .keyword = "checkpoint_arena",
   .flag = "--checkpoint-arena", .section = "Checkpoints",
   .help = "Let a rank's copy of its part of a checkpoint take this much memory; one that needs "
           "more fails"},
  {.name = "checkpoint_rate_mb",
   .place = OptionPlace{&S::checkpoint_rate_mb, &C::checkpoint_rate_mb},
   .variables = {"RINGWOOD_CHECKPOINT_RATE"}, .value = "MB/S",
   .range = {0, 1e9, "from 0 to 1000000000"}, .keyword = "checkpoint_rate",
   .flag = "--checkpoint-rate", .section = "Checkpoints",
   .help = "Let a rank send its part of a checkpoint at this rate at most; 0: as fast as it goes"},

  {.name = "log_level", .place = OptionPlace{&S::log_level, &C::log_level},
   .variables = {"RINGWOOD_LOG_LEVEL"}, .words = {"debug", "info", "warning", "error"},
   .check = [](const std::string& text) { return ParseLogLevel(text).status(); },
   .flag = "--log-level", .section = "Output",
   .help = "Log messages of this level and above to standard error"},
  {.name = "log_format", .place = OptionPlace{&S::log_format, &C::log_format},
   .variables = {"RINGWOOD_LOG_FORMAT"}, .words = {"text", "json"},
   .check = [](const std::string& text) { return ParseLogFormat(text).status(); },
   .flag = "--log-format", .section = "Output",
   .help = "Write log messages as text, or as objects of JSON, one a line"},
  {.name = "timeline", .place = OptionPlace{&S::timeline, &C::timeline},
   .variables = {"RINGWOOD_TIMELINE"}, .value = "FILE", .keyword = "timeline",
   .launcher_flag = "--timeline", .section = "Output",
   .help = "Write this rank's timeline to this file (a Chrome trace)"},
  {.name = "flight_record", .place = OptionPlace{&S::flight_record, &C::flight_record},
   .variables = {"RINGWOOD_FLIGHT_RECORD"}, .value = "FILE", .keyword = "flight_record",
   .launcher_flag = "--flight-record", .section = "Output",
   .help = "Keep this rank's last events in this file, also when the process is killed"},
};
// clang-format on

}  // namespace

std::span<const Option> OptionTable() { return kOptions; }

const Option& OptionNamed(const std::string& name) {
  const auto found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                  [&](const Option& option) { return name == option.name; });
  RW_CHECK(found != std::end(kOptions));
  return *found;
}

}  // namespace ringwood
