// all_reduce_bench WORLD BYTES,BYTES,… [INTERFACE [NAMESPACE-PREFIX]]
//
// One process a rank over UCX; with a prefix rank i runs in the network namespace PREFIXi (see
// bench/netns.sh), so that every rank has a card of its own with a shaped rate. Rank 0's figures go
// to standard output as JSON.
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
#include "dense/bench.h"
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

Status RunRank(const BenchOptions& options, const UcxOptions& ucx, int in, int out) {
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
  const auto rows = BenchAllReduce(&loop, transport.get(), options);
  RW_RETURN_IF_ERROR(loop.Call(
      [&] {
        transport.reset();
        return OkStatus();
      },
      Seconds(20)));
  RW_RETURN_IF_ERROR(rows.status());
  if (options.rank == 0) std::fputs(ToJson(*rows).c_str(), stdout);
  return OkStatus();
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("all_reduce_bench WORLD BYTES,… [INTERFACE [NAMESPACE-PREFIX]]\n", stderr);
    return 78;
  }
  BenchOptions options;
  options.world = std::atoi(argv[1]);
  for (std::string list = argv[2]; !list.empty();) {
    const size_t comma = std::min(list.find(','), list.size());
    options.bytes.push_back(ParseBytes(list.substr(0, comma)).value());
    list.erase(0, comma + 1);
  }
  std::vector<int> to, from;
  for (options.rank = 0; options.rank < options.world; ++options.rank) {
    int down[2], up[2];
    RW_CHECK(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0);
    if (fork() == 0) {
      if (argc > 4) {
        const std::string space = absl::StrFormat("/run/netns/%s%d", argv[4], options.rank);
        const int fd = open(space.c_str(), O_RDONLY | O_CLOEXEC);
        RW_CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
      }
      const Status status = RunRank(options, {argc > 3 ? argv[3] : "lo", true}, down[0], up[1]);
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
