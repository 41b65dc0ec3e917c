#include "measure/all_reduce_bench.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "dense/all_reduce.h"
#include "dense/lattice/codes.h"

namespace ringwood {
namespace {

// With codes: after these what they kept back is sent, and the scales have come down again.
constexpr int kCodedRuns = 8;

constexpr double kTimeoutSeconds = 120;  // of one run; 1 GB at 100 Mbit/s and 2 ranks takes 84 s

double ProcessSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Outcome {
  absl::Notification done;
  Status status;
};

}  // namespace

struct AllReduceBench::Buffers {
  Buffers(size_t count, const std::string& wire)
      : input(count),
        output(count),
        error(wire == "fp32" ? 0 : count),
        next_error(error.size()),
        reach(CodeBits(wire) == 0 ? 0 : LatticeBlocks(count)),
        next_reach(reach.size()) {}
  void Commit() {
    std::swap(error, next_error);
    std::swap(reach, next_reach);
  }
  Buffer<float> input, output;
  Buffer<float> error, next_error;       // of wire formats that round
  Buffer<BlockReach> reach, next_reach;  // of int8 and int4
};

AllReduceBench::AllReduceBench(Loop* loop, Transport* transport, const BenchOptions& options,
                               uint64_t bytes)
    : loop_(loop),
      transport_(transport),
      options_(options),
      buffers_(
          std::make_shared<Buffers>(std::max<uint64_t>(bytes / sizeof(float), 1), options.wire)) {
  const std::span<float> input = buffers_->input.span();
  std::fill(input.begin(), input.end(), static_cast<float>(options.rank + 1));
}

uint64_t AllReduceBench::bytes() const { return buffers_->input.size() * sizeof(float); }

StatusOr<double> AllReduceBench::RunOnce(uint64_t round) {
  const TimePoint start = Now();
  const auto outcome = std::make_shared<Outcome>();
  const bool posted =
      loop_->Post([=, options = options_, buffers = buffers_, transport = transport_] {
        AllReduceRequest request;
        request.place = {options.rank, options.world, options.hosts, options.cost};
        request.name = {Lane::kImmediate, round};
        request.wire = options.wire;
        request.chunk_bytes = options.chunk_bytes;
        request.strategy = options.strategy;
        request.input = std::as_bytes(buffers->input.span());
        request.output = std::as_writable_bytes(buffers->output.span());
        request.error = buffers->error.span();
        request.next_error = buffers->next_error.span();
        request.reach = buffers->reach.span();
        request.next_reach = buffers->next_reach.span();
        StartAllReduce(transport, request, [outcome, buffers](StatusOr<AllReduceResult> result) {
          outcome->status = result.status();
          outcome->done.Notify();
        });
      });
  if (!posted) return Unavailable("the loop is stopping");
  if (!outcome->done.WaitForNotificationWithTimeout(absl::Seconds(kTimeoutSeconds))) {
    return TimedOut(absl::StrFormat("all-reduce of %d bytes, round %d: no end after %.0f s",
                                    bytes(), round, kTimeoutSeconds));
  }
  RW_RETURN_IF_ERROR(outcome->status);
  const double took = ToSeconds(Now() - start);
  buffers_->Commit();
  return took;
}

namespace {

// How far from `sum` an element may be. Each rank may round once, each time by half of a unit in
// bf16's 8 bits, or by half of a scale twice, now and in its error: scales reach a quarter beyond
// the headroom over the largest value, which is `world`.
double AllowedError(const BenchOptions& options, double sum) {
  if (options.wire == "bf16") return sum * options.world / 256;
  const int bits = CodeBits(options.wire);
  if (bits == 0) return 0;
  const int levels = LatticeLevels(bits);
  return 1.25 * LatticeHeadroom(levels) * options.world / levels * options.world;
}

}  // namespace

Status AllReduceBench::CheckSum() const {
  const double sum = options_.world * (options_.world + 1) / 2.0;
  const double allowed = AllowedError(options_, sum);
  for (const float value : buffers_->output.span()) {
    if (!(std::fabs(value - sum) <= allowed)) {
      return Internal(absl::StrFormat("rank %d: the sum of %d bytes is wrong: %g instead of %g",
                                      options_.rank, bytes(), value, sum));
    }
  }
  return OkStatus();
}

Status AllReduceBench::Run(int runs, uint64_t* round, BenchSamples* samples) {
  // With codes the first run only finds the scales, and the next ones send its values, too.
  const int settling = CodeBits(options_.wire) == 0 ? 1 : kCodedRuns;
  for (int run = 0; run < settling; ++run) RW_RETURN_IF_ERROR(RunOnce((*round)++).status());
  RW_RETURN_IF_ERROR(CheckSum());
  // The check takes longer on one rank than on another: all start from here.
  RW_RETURN_IF_ERROR(RunOnce((*round)++).status());
  const double before = ProcessSeconds();
  for (int run = 0; run < runs; ++run) {
    RW_ASSIGN_OR_RETURN(const double took, RunOnce((*round)++));
    samples->seconds.push_back(took);
  }
  samples->cpu_seconds += ProcessSeconds() - before;
  return OkStatus();
}

int DefaultRuns(uint64_t bytes) {
  return static_cast<int>(std::clamp<uint64_t>((64 << 20) / std::max<uint64_t>(bytes, 1), 5, 50));
}

BenchRow Summarize(uint64_t bytes, int world, BenchSamples samples) {
  std::vector<double>& seconds = samples.seconds;
  std::sort(seconds.begin(), seconds.end());
  BenchRow row;
  row.bytes = bytes;
  row.runs = static_cast<int>(seconds.size());
  if (seconds.empty()) return row;
  row.p50_s = seconds[seconds.size() / 2];
  row.p99_s = seconds[std::min(seconds.size() - 1, seconds.size() * 99 / 100)];
  row.algbw_gbit = static_cast<double>(bytes) * 8e-9 / row.p50_s;
  row.busbw_gbit = row.algbw_gbit * 2 * (world - 1) / world;
  row.cpu_s_per_gb = samples.cpu_seconds / (static_cast<double>(bytes) * row.runs * 1e-9);
  return row;
}

std::string ToJson(const BenchRow& row) {
  return absl::StrFormat(
      "{\"bytes\": %d, \"runs\": %d, \"p50_s\": %.9g, \"p99_s\": %.9g, \"algbw_gbit\": %.6g, "
      "\"busbw_gbit\": %.6g, \"cpu_s_per_gb\": %.6g}",
      row.bytes, row.runs, row.p50_s, row.p99_s, row.algbw_gbit, row.busbw_gbit, row.cpu_s_per_gb);
}

}  // namespace ringwood
