#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/include/ringwood.h"
#include "launch/bench_sparse_command.h"
#include "launch/command.h"
#include "launch/supervisor.h"
#include "launch/table.h"

namespace ringwood {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
constexpr int kWarmUps = 2;

struct Flags {
  std::string sizes = "4K,64K,1M,16M";
  int repeat = 10;
};

// The C interface's codes, back to where the program speaks Status.
Status FromCode(int code) {
  const std::string text = ringwood_last_error();
  switch (code) {
    case RINGWOOD_OK:
      return OkStatus();
    case RINGWOOD_INVALID:
    case RINGWOOD_NOT_FOUND:
      return Invalid(text);
    case RINGWOOD_REFUSED:
      return Refused(text);
    case RINGWOOD_DENIED:
      return Denied(text);
    default:
      return Unavailable(text);
  }
}

struct Closer {
  void operator()(ringwood_session* session) const { ringwood_close(session, nullptr); }
};
using Session = std::unique_ptr<ringwood_session, Closer>;

StatusOr<std::vector<uint64_t>> ParseSizes(const std::string& text) {
  std::vector<uint64_t> sizes;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    RW_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(item));
    if (bytes < sizeof(float) || bytes > kMaxBytes) {
      return Invalid(absl::StrFormat("--sizes: %s is not between 4 bytes and 4 GiB", item));
    }
    sizes.push_back(bytes);
  }
  if (sizes.empty()) return Invalid("--sizes is empty; give sizes such as 64K,1M");
  return sizes;
}

// Seconds of one all-reduce of `data` (median), after a check that the sum is right.
StatusOr<double> Measure(ringwood_session* session, int repeat, std::vector<float>* data) {
  const int rank = ringwood_rank(session), world = ringwood_world(session);
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUps + repeat; ++i) {
    std::fill(data->begin(), data->end(), static_cast<float>(rank + 1));
    const TimePoint start = Now();
    RW_RETURN_IF_ERROR(FromCode(
        ringwood_allreduce(session, data->data(), data->size(), RINGWOOD_FLOAT32, RINGWOOD_SUM)));
    if (i >= kWarmUps) seconds.push_back(ToSeconds(Now() - start));
    const float sum = static_cast<float>(world) * static_cast<float>(world + 1) / 2;
    const bool good = std::all_of(data->begin(), data->end(), [&](float v) { return v == sum; });
    if (!good) return Internal(absl::StrFormat("rank %d: the sum is wrong", rank));
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

Status AllReduce(const Flags& flags) {
  RW_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes, ParseSizes(flags.sizes));
  ringwood_options options;
  RW_RETURN_IF_ERROR(FromCode(ringwood_options_from_environment(&options, sizeof(options))));
  ringwood_session* opened = nullptr;
  RW_RETURN_IF_ERROR(FromCode(ringwood_open(&options, &opened)));
  const Session session(opened);
  const int world = ringwood_world(opened);
  std::vector<std::vector<std::string>> rows = {{"SIZE", "MEDIAN", "RATE", "PER LINK"}};
  for (uint64_t bytes : sizes) {
    std::vector<float> data(bytes / sizeof(float));
    RW_ASSIGN_OR_RETURN(const double seconds, Measure(opened, flags.repeat, &data));
    const double rate = static_cast<double>(bytes) / seconds;
    // A ring sends 2(P-1)/P of the bytes over every link, each way.
    rows.push_back({FormatBytes(static_cast<double>(bytes)), FormatSeconds(seconds),
                    FormatBytes(rate) + "/s", FormatBytes(rate * 2 * (world - 1) / world) + "/s"});
  }
  if (ringwood_rank(opened) == 0) {
    std::printf("all-reduce of float32, %d ranks, median of %d\n%s", world, flags.repeat,
                FormatTable(rows).c_str());
  }
  return OkStatus();
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandContext* context) {
  CLI::App* parent = app.add_subcommand("bench", "Measure what this network and machine give");
  parent->require_subcommand(1);
  AddBenchSelectCommand(parent, context);
  AddBenchSparseCommand(parent, context);
  CLI::App* command =
      parent->add_subcommand("allreduce", "Time rings over the ranks of the job it runs in");
  command->footer("Example: ringwood run -np 4 -- ringwood bench allreduce");
  auto flags = std::make_shared<Flags>();
  command->add_option("--sizes", flags->sizes, "Sizes in bytes: 64K,1M")->capture_default_str();
  command->add_option("--repeat", flags->repeat, "Measured runs of each size")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->callback([context, flags] {
    const Status status = AllReduce(*flags);
    if (!status.ok()) FailCommand(context, status);
  });
}

}  // namespace ringwood
