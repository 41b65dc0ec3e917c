// What a checkpoint costs on one disk: saved through a store and restored from it, beside a plain
// file of the same bytes, in turn. The server is a process of its own; each rank is a thread here
// with a connection of its own, over loopback.
//
//   checkpoint_bench [DIRECTORY [BYTES [TURNS [RANKS [PARTS]]]]]       else ., 512M, 5, 4, all
//
// PARTS: any of rates,sent,memory,items.
// Prints the rates of each turn, where the server reads what is saved in the ranks' memory and
// where it is sent, then how memory goes over 100 checkpoints, then a checkpoint of 76,800 small
// items of 64 ranks.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "client/checkpoint/checkpointer.h"
#include "client/checkpoint/restore.h"
#include "client/grpc/store_client.h"
#include "plan/wire.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/server.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = 1 << 20;
constexpr uint64_t kItemBytes = 8 << 20;

double SecondsOf(const std::function<void()>& act) {
  const TimePoint begun = Now();
  act();
  return ToSeconds(Now() - begun);
}

// Every file of a folder leaves the page cache.
void Forget(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int file = open(entry.path().c_str(), O_RDONLY);
    if (file < 0) continue;  // the store has removed it
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
}

void WritePlain(const std::string& path, std::span<const std::byte> bytes) {
  unlink(path.c_str());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  RW_CHECK(file >= 0);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written =
        write(file, bytes.data() + at, std::min<size_t>(kBlock, bytes.size() - at));
    RW_CHECK(written > 0);
    at += static_cast<size_t>(written);
  }
  RW_CHECK(fsync(file) == 0);
  close(file);
}

void ReadPlain(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  RW_CHECK(file >= 0);
  std::vector<std::byte> block(kBlock);
  while (read(file, block.data(), block.size()) > 0) {
  }
  close(file);
}

// Not of the file cache, in MB.
double AnonymousMegabytes(pid_t process) {
  std::ifstream status(absl::StrFormat("/proc/%d/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::strtod(line.c_str() + 8, nullptr) / 1000;
  }
  return 0;
}

// Of user and kernel together.
double ProcessorSeconds(pid_t process) {
  std::ifstream file(absl::StrFormat("/proc/%d/stat", process));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, kernel = 0;
  fields >> user >> kernel;
  return (user + kernel) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The time and the processor time that something took, added up.
struct Cost {
  double seconds = 0, server = 0, ranks = 0;  // processor seconds of the server and of the ranks

  // Returns the seconds of this time.
  double Add(pid_t server_process, const std::function<void()>& act) {
    const double there = ProcessorSeconds(server_process), here = ProcessorSeconds(getpid());
    const double took = SecondsOf(act);
    seconds += took;
    server += ProcessorSeconds(server_process) - there;
    ranks += ProcessorSeconds(getpid()) - here;
    return took;
  }
  void Print(const char* what, double gigabytes) const {
    std::printf("%-36s server %.2f, ranks %.2f\n", what, server / gigabytes, ranks / gigabytes);
  }
};

// `checkpoint_bench serve STORE`: until its standard input ends.
int Serve(const std::string& store) {
  SetLog(LogLevel::kWarning, "server");
  ServerOptions options;
  options.insecure = true;
  options.servers = 0;
  options.failure_timeout_seconds = 3600;  // the ranks here neither beat nor vote
  options.join_timeout_seconds = 3600;
  options.store = store;
  KeepFreedMemory();  // as `ringwood server` does
  auto server = Server::Start(options);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", Message(server.status()).c_str());
    return 1;
  }
  const int port = (*server)->port();
  RW_CHECK(write(STDOUT_FILENO, &port, sizeof port) == sizeof port);
  char end = 0;
  while (read(STDIN_FILENO, &end, 1) > 0) {
  }
  (*server)->Stop();
  return 0;
}

class ServerProcess {
 public:
  explicit ServerProcess(const std::string& store) {
    int input[2], output[2];
    RW_CHECK(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0);
    process_ = fork();
    RW_CHECK(process_ >= 0);
    if (process_ == 0) {
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      execl("/proc/self/exe", "checkpoint_bench", "serve", store.c_str(), nullptr);
      _exit(1);
    }
    close(input[0]);
    close(output[1]);
    end_ = input[1];
    RW_CHECK(read(output[0], &port_, sizeof port_) == sizeof port_);
    close(output[0]);
  }
  ~ServerProcess() {
    close(end_);
    waitpid(process_, nullptr, 0);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  pid_t process() const { return process_; }

 private:
  pid_t process_ = -1;
  int end_ = -1, port_ = 0;
};

// A job whose ranks have joined its first epoch.
class Ranks {
 public:
  Ranks(const std::string& address, uint32_t world, bool by_memory = true) : ranks_(world) {
    const auto stub =
        v1::Coordinator::NewStub(OpenChannel(address, OwnConnection().Arguments(), ""));
    store_ = v1::Store::NewStub(OpenChannel(address, OwnConnection().Arguments(), ""));
    OnEach([&](uint32_t rank) {
      Rank& me = ranks_[rank];
      me.name.rank = rank;
      me.name.world = world;
      me.name.incarnation = Unpredictable() | 1;
      v1::JoinRequest join;
      join.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
      join.set_role(v1::ROLE_WORKER);
      join.set_rank(rank);
      join.set_world(world);
      join.set_incarnation(me.name.incarnation);
      grpc::ClientContext context;
      v1::JoinResponse joined;
      RW_CHECK(stub->Join(&context, join, &joined).ok());
      me.name.epoch = joined.epoch();
      me.store = MakeGrpcStoreClient(address, "", by_memory);
      me.checkpointer = std::make_unique<Checkpointer>(me.store.get());
    });
  }

  // `items`: of a rank. Returns when the checkpoint is complete.
  void Save(uint64_t step, const std::function<std::vector<Item>(uint32_t rank)>& items) {
    OnEach([&](uint32_t rank) {
      ranks_[rank].name.step = step;
      Checkpointer* const checkpointer = ranks_[rank].checkpointer.get();
      RW_CHECK(checkpointer->Begin(ranks_[rank].name, items(rank)).ok());
      const Status saved = checkpointer->Wait().value();
      if (!saved.ok()) std::fprintf(stderr, "%s\n", Message(saved).c_str());
      RW_CHECK(saved.ok());
    });
  }

  // Returns when the newest checkpoint was read back: readers get it from then on.
  void AwaitReadBack() {
    v1::HoldRequest wish;
    wish.set_epoch(ranks_[0].name.epoch);
    wish.set_step(ranks_[0].name.step);
    wish.set_timeout_seconds(60);
    grpc::ClientContext context;
    const auto held = store_->Hold(&context, wish);
    v1::HeldPart part;
    RW_CHECK(held->Read(&part));
    context.TryCancel();
    held->Finish();
  }

  // `load` reads items of the checkpoint.
  void Load(uint64_t step, const std::function<void(uint32_t rank, Restore* from)>& load) {
    OnEach([&](uint32_t rank) {
      const CheckpointName name{ranks_[rank].name.epoch, step};
      Restore from(ranks_[rank].store.get(), name, static_cast<int>(rank));
      load(rank, &from);
    });
  }

 private:
  struct Rank {
    StripeName name;
    std::unique_ptr<StoreClient> store;
    std::unique_ptr<Checkpointer> checkpointer;
  };
  void OnEach(const std::function<void(uint32_t)>& act) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) threads.emplace_back(act, rank);
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<Rank> ranks_;
  std::unique_ptr<v1::Store::Stub> store_;
};

std::string NameOf(size_t i) { return absl::StrFormat("model/layers.%d.weight", i); }

// The same on every rank.
std::vector<Item> SharedItems(std::span<const std::byte> state) {
  std::vector<Item> items;
  for (uint64_t at = 0; at < state.size(); at += kItemBytes) {
    items.push_back({NameOf(items.size()), true,
                     state.subspan(at, std::min<uint64_t>(kItemBytes, state.size() - at))});
  }
  return items;
}

void Change(std::span<std::byte> state, uint64_t seed) {
  Random random(seed);
  for (size_t at = 0; at + 8 <= state.size(); at += 8) {
    const uint64_t word = random.Next();
    std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, state.begin() + at);
  }
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void PrintRatio(const char* what, std::vector<double> ratios) {
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  std::printf("%-36s %.2f (median; %.2f to %.2f)\n", what, Median(ratios), *least, *most);
}

void Rates(const std::string& folder, uint64_t bytes, int turns, uint32_t world, bool by_memory) {
  const std::string plain = folder + "/plain", store = folder + "/store";
  ServerProcess server(store);
  Ranks ranks(server.address(), world, by_memory);
  Buffer<std::byte> state(bytes), loaded(bytes);
  const double megabytes = static_cast<double>(bytes) / 1e6;
  std::vector<double> saved_to_written, restored_to_read, all_to_read;
  Cost saving, reading_back, restoring, restoring_all;
  std::printf("\n%s, %d ranks%s; MB/s\n%6s %14s %8s %10s %12s %8s %14s\n",
              FormatBytes(static_cast<double>(bytes)).c_str(), world,
              by_memory ? "" : ", which send what they save, as from another host", "turn",
              "write + fsync", "save", "read back", "cold read", "restore", "restore by all");
  for (int turn = 1; turn <= turns; ++turn) {
    Change(state.span(), static_cast<uint64_t>(turn));
    const auto step = static_cast<uint64_t>(turn);
    const double written = SecondsOf([&] { WritePlain(plain, state.span()); });
    const double saved = saving.Add(server.process(), [&] {
      ranks.Save(step, [&](uint32_t) { return SharedItems(state.span()); });
    });
    const double read_back = reading_back.Add(server.process(), [&] { ranks.AwaitReadBack(); });
    const auto restore = [&](bool all) {
      ranks.Load(step, [&](uint32_t rank, Restore* from) {
        Buffer<std::byte> own(all ? kItemBytes : 0);
        for (size_t i = 0; i * kItemBytes < bytes; ++i) {
          if (!all && i % world != rank) continue;
          const uint64_t length = std::min(kItemBytes, bytes - i * kItemBytes);
          const auto place =
              all ? own.span().first(length) : loaded.span().subspan(i * kItemBytes, length);
          RW_CHECK(from->Read(NameOf(i), true, place).ok());
        }
      });
    };
    // In turn one or the other first: a disk that saves up speed gives it to the first.
    double read = 0, restored = 0;
    for (const bool plainly : {turn % 2 == 1, turn % 2 == 0}) {
      Forget(folder);
      (plainly ? read : restored) = plainly
                                        ? SecondsOf([&] { ReadPlain(plain); })
                                        : restoring.Add(server.process(), [&] { restore(false); });
    }
    RW_CHECK(std::ranges::equal(loaded.span(), state.span()));
    Forget(folder);
    const double by_all = restoring_all.Add(server.process(), [&] { restore(true); });
    std::printf("%6d %14.0f %8.0f %10.0f %12.0f %8.0f %14.0f\n", turn, megabytes / written,
                megabytes / saved, megabytes / read_back, megabytes / read, megabytes / restored,
                megabytes / by_all);
    saved_to_written.push_back(written / saved);
    restored_to_read.push_back(read / restored);
    all_to_read.push_back(read / by_all);
  }
  PrintRatio("save / (write + fsync)", saved_to_written);
  PrintRatio("restore / cold read", restored_to_read);
  PrintRatio("restore by all ranks / cold read", all_to_read);
  const double gigabytes = turns * megabytes / 1e3;
  std::printf("processor seconds per GB of the checkpoint\n");
  saving.Print("save", gigabytes);
  reading_back.Print("read back, after the save", gigabytes);
  restoring.Print("restore", gigabytes);
  restoring_all.Print("restore by all ranks", gigabytes);
}

void Memory(const std::string& folder, uint64_t bytes, uint32_t world) {
  constexpr int kCheckpoints = 100, kSettled = 20;
  const std::string store = folder + "/store";
  ServerProcess server(store);
  Ranks ranks(server.address(), world);
  Buffer<std::byte> state(bytes);
  std::printf(
      "\n%d checkpoints of %s, %d ranks; MB of memory beside state and arenas (%.0f each)\n",
      kCheckpoints, FormatBytes(static_cast<double>(bytes)).c_str(), world,
      static_cast<double>(bytes) / 1e6);
  std::printf("%6s %8s %8s\n", "", "server", "ranks");
  double server_then = 0, ranks_then = 0;
  for (int step = 1; step <= kCheckpoints; ++step) {
    Change(state.span(), static_cast<uint64_t>(step));
    ranks.Save(static_cast<uint64_t>(step), [&](uint32_t) { return SharedItems(state.span()); });
    if (step % kSettled != 0) continue;
    const double there = AnonymousMegabytes(server.process());
    const double here = AnonymousMegabytes(getpid()) - 2 * static_cast<double>(bytes) / 1e6;
    std::printf("%6d %8.1f %8.1f\n", step, there, here);
    if (step == kSettled) server_then = there, ranks_then = here;
    if (step == kCheckpoints) {
      std::printf("from checkpoint %d to %d: server %+.1f MB, ranks %+.1f MB\n", kSettled,
                  kCheckpoints, there - server_then, here - ranks_then);
    }
  }
}

void ManyItems(const std::string& folder) {
  constexpr uint32_t kWorld = 64;
  constexpr size_t kItems = 1200, kBytes = 256;
  ServerProcess server(folder + "/store");
  Ranks ranks(server.address(), kWorld);
  std::vector<std::byte> state(kItems * kBytes);
  Change(state, 1);
  const double saved = SecondsOf([&] {
    ranks.Save(1, [&](uint32_t) {
      std::vector<Item> items;
      for (size_t i = 0; i < kItems; ++i) {
        items.push_back({NameOf(i), false, std::span(state).subspan(i * kBytes, kBytes)});
      }
      return items;
    });
  });
  Forget(folder);
  const double restored = SecondsOf([&] {
    ranks.Load(1, [&](uint32_t, Restore* from) {
      std::vector<std::byte> item(kBytes);
      for (size_t i = 0; i < kItems; ++i) {
        RW_CHECK(from->Read(NameOf(i), false, item).ok());
        RW_CHECK(std::ranges::equal(item, std::span(state).subspan(i * kBytes, kBytes)));
      }
    });
  });
  std::printf("\n%d items of %d bytes, %d ranks: saved in %.1f s, restored in %.1f s\n",
              static_cast<int>(kWorld * kItems), static_cast<int>(kBytes), static_cast<int>(kWorld),
              saved, restored);
}

int Main(int count, char** words) {
  if (count == 3 && std::string(words[1]) == "serve") return Serve(words[2]);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string folder = std::string(count > 1 ? words[1] : ".") + "/checkpoint-bench-XXXXXX";
  const auto bytes = ParseBytes(count > 2 ? words[2] : "512M");
  const int turns = count > 3 ? std::atoi(words[3]) : 5;
  const auto world = static_cast<uint32_t>(count > 4 ? std::atoi(words[4]) : 4);
  const std::string parts = count > 5 ? words[5] : "rates,sent,memory,items";
  if (!bytes.ok() || *bytes == 0 || turns < 1 || world < 1 || mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "checkpoint_bench [DIRECTORY [BYTES [TURNS [RANKS [PARTS]]]]]\n");
    return 2;
  }
  const auto in_new = [&](const char* name, const std::function<void(const std::string&)>& act) {
    if (parts.find(name) == std::string::npos) return;
    const std::string place = folder + "/" + name;
    fs::create_directory(place);
    act(place);
    fs::remove_all(place);
  };
  in_new("rates", [&](const std::string& place) { Rates(place, *bytes, turns, world, true); });
  in_new("sent", [&](const std::string& place) { Rates(place, *bytes, turns, world, false); });
  in_new("memory", [&](const std::string& place) { Memory(place, *bytes / 16, world); });
  in_new("items", [&](const std::string& place) { ManyItems(place); });
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int count, char** words) { return ringwood::Main(count, words); }
