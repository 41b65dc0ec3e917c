// Hosts for benchmarks that are far apart, on one machine: network namespaces PREFIX0, PREFIX1, …
// with one interface eth0 each (10.79.0.1, .2, …), whose packets this program carries from one to
// the other: at a rate, after a delay, and some of them not at all. They are there until it is
// stopped.
//
//   far_hosts --count 4 --rate 250 --delay 10         prints "ready"; a round trip takes 20 ms
//
// Needs root, iproute2 and /dev/net/tun. A rank on host 2: ip netns exec rwbench2 COMMAND. Where no
// delay is wanted, bench/netns.sh has the kernel do it.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/card.h"

namespace ringwood {
namespace {

constexpr int kMostHosts = 64;
constexpr int kPacketsInTurn = 64;  // of one host, before it is another's turn

int64_t Nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Options {
  int count = 4;
  double rate_mbit = 250;
  double delay_ms = 10;
  double loss = 0;
  double queue_ms = 100;
  std::string prefix = "rwbench";
};

// The namespaces that were made, which no exit leaves behind.
std::vector<std::string>& Made() {
  static auto* made = new std::vector<std::string>;
  return *made;
}

void RemoveHosts() {
  for (const std::string& name : Made()) (void)!std::system(("ip netns del " + name).c_str());
}

// SIGINT and SIGTERM.
sigset_t Ends() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  return ends;
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "far_hosts: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

void Ip(const std::string& arguments) {
  if (std::system(("ip " + arguments).c_str()) == 0) return;
  std::fprintf(stderr, "far_hosts: ip %s failed\n", arguments.c_str());
  std::exit(1);
}

struct Host {
  Host(const Options& options, int number)
      : name(options.prefix + std::to_string(number)), out(CardOf(options)), in(CardOf(options)) {
    Ip("netns add " + name);
    Made().push_back(name);
  }

  // Its interface: what the host sends is read here, what is written here arrives there.
  void Open(int number) {
    const int space = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) Die("enter " + name);
    close(space);
    card = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    std::strcpy(request.ifr_name, "eth0");
    if (card < 0 || ioctl(card, TUNSETIFF, &request) != 0) Die("make eth0 in " + name);
    const std::string address = "10.79.0." + std::to_string(number + 1) + "/24";
    Ip("link set lo up");
    Ip("addr add " + address + " dev eth0");
    Ip("link set eth0 txqueuelen 10000 up");
  }

  static Card CardOf(const Options& options) {
    return {1e6 / 8 * options.rate_mbit, static_cast<int64_t>(1e6 * options.queue_ms)};
  }

  struct Packet {
    int64_t due;
    std::vector<char> bytes;
  };

  std::string name;
  int card = -1;
  Card out, in;
  std::deque<Packet> coming;  // in order of `due`
};

class Hosts {
 public:
  explicit Hosts(const Options& options) : options_(options) {
    for (int i = 0; i < options.count; ++i) hosts_.emplace_back(options, i);
    for (int i = 0; i < options.count; ++i) hosts_[i].Open(i);
  }

  // Until SIGINT or SIGTERM.
  void Run() {
    const sigset_t ends = Ends();
    const int ended = signalfd(-1, &ends, SFD_CLOEXEC);
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    std::vector<pollfd> awaited = {{ended, POLLIN, 0}, {timer, POLLIN, 0}};
    for (const Host& host : hosts_) awaited.push_back({host.card, POLLIN, 0});
    std::puts("ready");
    std::fflush(stdout);
    while ((awaited[0].revents & POLLIN) == 0) {
      for (Host& host : hosts_) Take(&host);
      Sleep(timer, Deliver());
      if (poll(awaited.data(), awaited.size(), -1) < 0 && errno != EINTR) Die("poll");
    }
  }

 private:
  void Take(Host* from) {
    constexpr size_t kDestination = 16;  // of an IPv4 header
    for (int i = 0; i < kPacketsInTurn; ++i) {
      const ssize_t size = read(from->card, packet_.data(), packet_.size());
      if (size < 20) return;
      const auto* header = reinterpret_cast<const unsigned char*>(packet_.data());
      const int to = header[kDestination + 3] - 1;
      if (header[0] >> 4 != 4 || to < 0 || to >= options_.count) continue;
      if (unit_(random_) < options_.loss) continue;
      const size_t bytes = static_cast<size_t>(size);
      const std::optional<int64_t> sent = from->out.Pass(Nanoseconds(), bytes);
      if (!sent) continue;
      const auto delay = static_cast<int64_t>(1e6 * options_.delay_ms);
      const std::optional<int64_t> come = hosts_[to].in.Pass(*sent + delay, bytes);
      if (come) hosts_[to].coming.push_back({*come, {packet_.data(), packet_.data() + size}});
    }
  }

  // What is due; returns when the next packet is.
  int64_t Deliver() {
    const int64_t now = Nanoseconds();
    int64_t next = INT64_MAX;
    for (Host& host : hosts_) {
      for (; !host.coming.empty() && host.coming.front().due <= now; host.coming.pop_front()) {
        const std::vector<char>& bytes = host.coming.front().bytes;
        if (write(host.card, bytes.data(), bytes.size()) < 0 && errno != EAGAIN) Die("deliver");
      }
      if (!host.coming.empty()) next = std::min(next, host.coming.front().due);
    }
    return next;
  }

  static void Sleep(int timer, int64_t until) {
    uint64_t expirations;
    (void)!read(timer, &expirations, sizeof expirations);
    itimerspec at{};
    if (until != INT64_MAX) {
      at.it_value = {until / 1'000'000'000, until % 1'000'000'000};
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, nullptr);
  }

  const Options options_;
  std::vector<Host> hosts_;
  std::vector<char> packet_ = std::vector<char>(65536);
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> unit_;
};

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  ringwood::Options options;
  CLI::App app("Hosts that are far apart, for benchmarks: network namespaces behind a slow line");
  app.add_option("--count", options.count, "So many hosts")
      ->check(CLI::Range(2, ringwood::kMostHosts));
  app.add_option("--rate", options.rate_mbit, "Of every interface, each way, Mbit/s")
      ->check(CLI::Range(0.1, 1e4));
  app.add_option("--delay", options.delay_ms, "One way, ms")->check(CLI::Range(0.0, 1e4));
  app.add_option("--loss", options.loss, "Lose this share of the packets")
      ->check(CLI::Range(0.0, 0.5));
  app.add_option("--queue", options.queue_ms, "What waits longer is lost, ms")
      ->check(CLI::Range(0.0, 1e4));
  app.add_option("--prefix", options.prefix, "Of the hosts' names")
      ->check([](const std::string& name) {
        const bool plain =
            !name.empty() &&
            name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string::npos;
        return plain ? std::string() : std::string("lower-case letters and digits only");
      });
  CLI11_PARSE(app, argc, argv);
  // Until all hosts are there, too: who ends it then would leave some behind.
  const sigset_t ends = ringwood::Ends();
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  std::atexit(ringwood::RemoveHosts);
  ringwood::Hosts(options).Run();
}
