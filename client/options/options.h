// What a session is opened with, and how it is read from the environment that a launcher sets.
// option_table.h says of each option what it is called elsewhere and what it may be.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ringwood {

// Above it entries wait so shortly that their momentum is fresh, and clearing it would leave next
// to none: at density 1 nothing but plain SGD. The first stages of the density warm-up are above.
constexpr double kMaskedDensity = 0.05;

constexpr char kMeasured[] = "measured";

// Continue from the newest checkpoint, which must exist; or start a new job where there is none.
enum class Resume : uint8_t { kNo, kRequired, kOrStart };

// The defaults are the members' initial values. Each member has its row in option_table.cc, whose
// help says what it means.
struct SessionOptions {
  std::string coordinator;  // "host:port"
  int rank = -1;
  int world = 0;
  std::string host = "localhost";  // as the launcher calls it
  std::string network_interface;   // data plane; empty: loopback
  bool trusted_fabric = false;     // the operator declares a network off loopback private
  bool brings_reducer = false;     // this process has started one, which joins as well
  std::string transport = "auto";  // data plane: "ucx", "grpc" or "auto", transport/open_fabric.h
  std::string port_range;          // "20000-20099": where it listens; empty: any port
  std::string token;
  std::string token_file;  // where the token is, if it is not in `token`
  std::string identity;    // folder of a certificate (identity/identity.h); empty: plaintext
  Resume resume = Resume::kNo;
  uint64_t job = 0;     // the job to continue, or the name of the new one; 0: not named
  double momentum = 0;  // momentum correction of sparse tensors
  // Entries that were applied start again with velocity 0 (DGC's momentum factor masking), while
  // the density is at most kMaskedDensity.
  bool momentum_masking = true;
  // A sparse tensor's gradient enters the residual with the norm clip_norm / sqrt(world) at most
  // (DGC's local clipping); 0: as it is.
  double clip_norm = 0;
  std::string planner = "hybrid";
  std::string wire = "native";                // of dense groups; see the table
  std::string sparse_codec = "block16/fp32";  // worker to first reducer, sparse/codec.h
  std::string sparse_merge = "gtopk";         // or "union" or "exact", sparse/group.h
  std::string sparse_method = "exact";        // or "threshold" or "gaussian", sparse/selector.h
  // Entries of the result, as a multiple of those that a worker sends; 0: what fits in 1 % of the
  // tensors (kResultDensity, plan/strategy/problem.h).
  double sparse_keep = 0;
  int sparse_chunk = 0;  // elements that are selected by themselves; 0: each tensor as a whole
  int warmup_steps = 0;  // density warm-up from the job's first step (plan/warm_up.h); 0: none
  // Of a rank's part of a checkpoint: most of it (MB, 10^6 bytes), and MB/s to the store; 0: as
  // fast as it goes.
  double checkpoint_arena_mb = 20000;
  double checkpoint_rate_mb = 0;
  std::string log_level = "info";
  std::string log_format = "text";
  double join_timeout_seconds = 120;
  double coordinator_grace_seconds = -1;  // negative: by the job's mode, proto/attachment.h
  std::string timeline;                   // file of this rank's timeline; empty: none
  std::string flight_record;              // file of its last events; empty: none
  bool adapt = false;                     // measure, and follow what was measured with new plans
  std::string plan_for = kMeasured;       // or a network, plan/model/planned_network.h
  // Files of rank 0; empty: none. The plan that the job runs, and no other; where to write each
  // plan that the job runs, and at the end what was measured, as a profile.
  std::string freeze_plan;
  std::string save_plan;
  std::string profile;

  bool operator==(const SessionOptions&) const = default;
};

// The value of a variable, or nullptr: getenv in a program, a map in a test.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// "1f", as checkpoint lists and logs name a job (without leading zeros at will); 0 is no job.
StatusOr<uint64_t> ParseJob(const std::string& text);

// RINGWOOD_* and torchrun's RANK and WORLD_SIZE, falling back to Slurm's and Open MPI's names. What
// is not set keeps its default, but a rank and a world must be there.
StatusOr<SessionOptions> OptionsFromEnvironment(const EnvironmentLookup& environment);

// The same without a rank and a world: what a launcher was given for all of them.
StatusOr<SessionOptions> SharedOptionsFromEnvironment(const EnvironmentLookup& environment);

// What changes results, name and value: equal on all ranks, which is checked when they agree on the
// plan. (Momenta and densities are compared tensor by tensor.)
std::vector<std::pair<std::string, std::string>> Agreed(const SessionOptions& options);

// Whether `value` is what the number of this name may be: "momentum", "clip_norm", "density",
// "weight" and the numbers among the options. kInvalidArgument says what is allowed.
Status CheckRange(const char* name, double value);

// That numbers are in their ranges, words are known, and options fit each other.
Status CheckValues(const SessionOptions& options);

// Everything that can be found wrong before the network is touched: CheckValues, and the place.
Status Check(const SessionOptions& options);

}  // namespace ringwood
