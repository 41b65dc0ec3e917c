#include "dense/bench.h"

#include <time.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "dense/all_reduce.h"

namespace ringwood {
namespace {

constexpr double kTimeoutSeconds = 120;  // of one run; 1 GB at 100 Mbit/s and 2 ranks takes 84 s

double ProcessSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// What the runs of one size and their callbacks share; lives until all let go of it.
struct Buffers {
  Buffers(size_t bytes, bool rounded) : input(bytes), output(bytes) {
    const size_t errors = rounded ? bytes / sizeof(float) : 0;
    error = Buffer<float>(errors);
    next_error = Buffer<float>(errors);
  }
  Buffer<std::byte> input, output;
  Buffer<float> error, next_error;  // with bf16 on the wire
};

struct Run {
  absl::Notification done;
  Status status;
};

StatusOr<double> RunOnce(Loop* loop, Transport* transport, const BenchOptions& options,
                         uint64_t round, const std::shared_ptr<Buffers>& buffers) {
  const TimePoint start = Now();
  const auto run = std::make_shared<Run>();
  const bool posted = loop->Post([=] {
    AllReduceRequest request;
    request.rank = options.rank;
    request.world = options.world;
    request.lane = Lane::kImmediate;
    request.round = round;
    request.wire = options.wire;
    request.input = buffers->input.span();
    request.output = buffers->output.span();
    request.error = buffers->error.span();
    request.next_error = buffers->next_error.span();
    StartAllReduce(transport, request, [run, buffers](StatusOr<AllReduceResult> result) {
      run->status = result.status();
      run->done.Notify();
    });
  });
  if (!posted) return Unavailable("the loop is stopping");
  if (!run->done.WaitForNotificationWithTimeout(absl::Seconds(kTimeoutSeconds))) {
    return TimedOut(absl::StrFormat("all-reduce of %d bytes, run %d: no end after %.0f s",
                                    buffers->input.size(), round, kTimeoutSeconds));
  }
  RW_RETURN_IF_ERROR(run->status);
  return ToSeconds(Now() - start);
}

BenchRow Summarize(uint64_t bytes, int world, double cpu_seconds, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  BenchRow row;
  row.bytes = bytes;
  row.runs = static_cast<int>(seconds.size());
  row.p50_s = seconds[seconds.size() / 2];
  row.p99_s = seconds[std::min(seconds.size() - 1, seconds.size() * 99 / 100)];
  row.algbw_gbit = static_cast<double>(bytes) * 8e-9 / row.p50_s;
  row.busbw_gbit = row.algbw_gbit * 2 * (world - 1) / world;
  row.cpu_s_per_gb = cpu_seconds / (static_cast<double>(bytes) * row.runs * 1e-9);
  return row;
}

}  // namespace

StatusOr<std::vector<BenchRow>> BenchAllReduce(Loop* loop, Transport* transport,
                                               const BenchOptions& options) {
  std::vector<BenchRow> rows;
  uint64_t round = options.first_round;
  for (const uint64_t bytes : options.bytes) {
    const uint64_t whole = std::max<uint64_t>(bytes / sizeof(float), 1) * sizeof(float);
    const int runs = options.runs > 0
                         ? options.runs
                         : static_cast<int>(std::clamp<uint64_t>((64 << 20) / whole, 5, 50));
    const auto buffers = std::make_shared<Buffers>(whole, options.wire == "bf16");
    std::vector<double> seconds;
    double cpu = 0;
    for (int run = -1; run < runs; ++run) {
      const double before = ProcessSeconds();
      RW_ASSIGN_OR_RETURN(const double took, RunOnce(loop, transport, options, round++, buffers));
      if (run < 0) continue;
      seconds.push_back(took);
      cpu += ProcessSeconds() - before;
    }
    rows.push_back(Summarize(whole, options.world, cpu, std::move(seconds)));
  }
  return rows;
}

std::string ToJson(const std::vector<BenchRow>& rows) {
  std::string json = "{\"results\": [";
  for (const BenchRow& row : rows) {
    json += absl::StrFormat(
        "%s\n  {\"bytes\": %d, \"runs\": %d, \"p50_s\": %.9g, \"p99_s\": %.9g, \"algbw_gbit\": "
        "%.6g, "
        "\"busbw_gbit\": %.6g, \"cpu_s_per_gb\": %.6g}",
        &row == rows.data() ? "" : ",", row.bytes, row.runs, row.p50_s, row.p99_s, row.algbw_gbit,
        row.busbw_gbit, row.cpu_s_per_gb);
  }
  return json + "\n]}\n";
}

}  // namespace ringwood
