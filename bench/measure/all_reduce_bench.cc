// all_reduce_bench WORLD BYTES,BYTES,… [INTERFACE [NAMESPACE-PREFIX [WIRE [MESSAGE-BYTES,…]]]]
//
// One process a rank over UCX; with a prefix rank i runs in the network namespace PREFIXi (see
// bench/netns.sh), so that every rank has a NIC of its own with a shaped rate. Rank 0's figures go
// to standard output as JSON, a line a size. MESSAGE-BYTES of a ring; 0: what the engine chooses.
#include "measure/all_reduce_bench.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/units.h"
#include "transport/ucx/fabric.h"

namespace ringwood {
namespace {

// Addresses travel as one line each: child → parent, then all of them parent → child.
std::string ReadLine(int fd) {
  std::string line;
  for (char c; read(fd, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

void WriteLine(int fd, const std::string& line) {
  const std::string text = line + "\n";
  RW_CHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

struct Job {
  BenchOptions options;
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> messages = {0};
};

Status Measure(const Job& job, Loop* loop, Transport* transport) {
  uint64_t round = 1;
  for (const uint64_t size : job.sizes) {
    for (const uint64_t message : job.messages) {
      BenchOptions options = job.options;
      options.chunk_bytes = message * options.world * (options.wire == "bf16" ? 2 : 1);
      AllReduceBench bench(loop, transport, options, size);
      BenchSamples samples;
      RW_RETURN_IF_ERROR(bench.Run(DefaultRuns(size), &round, &samples));
      if (options.rank != 0) continue;
      const BenchRow row = Summarize(bench.bytes(), options.world, samples);
      std::printf("%6d %s\n", static_cast<int>(message), ToJson(row).c_str());
      std::fflush(stdout);
    }
  }
  return OkStatus();
}

Status RunRank(const Job& job, const UcxOptions& ucx, int in, int out) {
  const BenchOptions& options = job.options;
  Loop loop("bench");
  RW_ASSIGN_OR_RETURN(const auto fabric, MakeUcxFabric(&loop, ucx));
  WriteLine(out, fabric->Address());
  std::vector<Peer> peers;
  for (int i = 0; i < options.world; ++i) {
    peers.push_back({i, absl::StrFormat("rank %d", i), ReadLine(in)});
  }
  std::unique_ptr<Transport> transport;
  RW_RETURN_IF_ERROR(loop.Call(
      [&]() -> Status {
        RW_ASSIGN_OR_RETURN(transport, fabric->Connect({1, 1, options.rank}, peers, {}));
        return OkStatus();
      },
      Seconds(20)));
  const Status measured = Measure(job, &loop, transport.get());
  RW_RETURN_IF_ERROR(loop.Call(
      [&] {
        transport.reset();
        return OkStatus();
      },
      Seconds(20)));
  return measured;
}

std::vector<uint64_t> Sizes(std::string list) {
  std::vector<uint64_t> sizes;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    sizes.push_back(ParseBytes(list.substr(0, comma)).value());
    list.erase(0, comma + 1);
  }
  return sizes;
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("all_reduce_bench WORLD BYTES,… [INTERFACE [NAMESPACE-PREFIX [WIRE [MESSAGE,…]]]]\n",
               stderr);
    return 78;
  }
  Job job;
  BenchOptions& options = job.options;
  options.world = std::atoi(argv[1]);
  job.sizes = Sizes(argv[2]);
  if (argc > 5) options.wire = argv[5];
  if (argc > 6) job.messages = Sizes(argv[6]);
  std::vector<int> to, from;
  for (options.rank = 0; options.rank < options.world; ++options.rank) {
    int down[2], up[2];
    RW_CHECK(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0);
    if (fork() == 0) {
      if (argc > 4 && *argv[4] != '\0') {
        const std::string space = absl::StrFormat("/run/netns/%s%d", argv[4], options.rank);
        const int fd = open(space.c_str(), O_RDONLY | O_CLOEXEC);
        RW_CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
      }
      const Status status = RunRank(job, {argc > 3 ? argv[3] : "lo", true}, down[0], up[1]);
      if (!status.ok())
        std::fprintf(stderr, "rank %d: %s\n", options.rank, Message(status).c_str());
      std::fflush(stdout);
      _exit(status.ok() ? 0 : 1);
    }
    to.push_back(down[1]);
    from.push_back(up[0]);
  }
  std::vector<std::string> addresses;
  for (int fd : from) addresses.push_back(ReadLine(fd));
  for (int fd : to) {
    for (const std::string& address : addresses) WriteLine(fd, address);
  }
  int failed = 0;
  for (int status; wait(&status) > 0;) failed |= status;
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) { return ringwood::Main(argc, argv); }
