// Where the time of a save goes: each stage of it alone, on one thread and without a network,
// beside a plain file of the same bytes.
//
//   checkpoint_stages_bench [DIRECTORY [BYTES [TURNS]]]       else ., 256M, 3
//
// Prints of each stage the processor seconds per GB, user and kernel, and the rate. What a save
// through a server takes beyond their sum (checkpoint_bench) is gRPC and the kernel's sockets.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "client/checkpoint/arena.h"
#include "client/grpc/chunk_message.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/store/checkpoint_store.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

double ToSecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

struct Cost {
  double seconds = 0, user = 0, kernel = 0;
};

// The stages in the order of their first run, with their costs of all turns.
class Stages {
 public:
  void Run(const std::string& name, const std::function<void()>& stage) {
    rusage before{}, after{};
    const TimePoint begun = Now();
    getrusage(RUSAGE_SELF, &before);
    stage();
    getrusage(RUSAGE_SELF, &after);
    if (!costs_.contains(name)) names_.push_back(name);
    Cost& cost = costs_[name];
    cost.seconds += ToSeconds(Now() - begun);
    cost.user += ToSecondsOf(after.ru_utime) - ToSecondsOf(before.ru_utime);
    cost.kernel += ToSecondsOf(after.ru_stime) - ToSecondsOf(before.ru_stime);
  }
  void Print(double gigabytes) const {
    std::printf("%-44s %10s %10s %10s\n", "processor seconds per GB", "user", "kernel", "MB/s");
    for (const std::string& name : names_) {
      const Cost& cost = costs_.at(name);
      std::printf("%-44s %10.3f %10.3f %10.0f\n", name.c_str(), cost.user / gigabytes,
                  cost.kernel / gigabytes, 1000 * gigabytes / cost.seconds);
    }
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, Cost> costs_;
};

void WritePlain(const std::string& path, std::span<const std::byte> bytes) {
  unlink(path.c_str());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  RW_CHECK(file >= 0);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written =
        write(file, bytes.data() + at, std::min<size_t>(kPieceBytes, bytes.size() - at));
    RW_CHECK(written > 0);
    at += static_cast<size_t>(written);
  }
  RW_CHECK(fsync(file) == 0);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

void ReadPlain(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  RW_CHECK(file >= 0);
  std::vector<std::byte> block(kPieceBytes);
  while (read(file, block.data(), block.size()) > 0) {
  }
  close(file);
}

// One rank's checkpoint of one step, from its copy to the manifest.
void Save(Stages* stages, CheckpointStore* store, uint64_t step, const std::vector<Item>& items) {
  Arena arena(1ull << 40);
  stages->Run("copy into the arena", [&] { RW_CHECK(arena.Fill(items, 0, 1).ok()); });
  stages->Run("the same into an arena that was used",
              [&] { RW_CHECK(arena.Fill(items, 0, 1).ok()); });
  std::vector<uint64_t> digests;
  stages->Run("digest", [&] {
    for (size_t i = 0; i < arena.size(); ++i) digests.push_back(Digest(arena.entry(i).data));
  });
  const CheckpointId id{1, step};
  std::unique_ptr<StripeWriter> stripe = *store->NewStripe(id, 0, 1);
  for (size_t i = 0; i < arena.size(); ++i) {
    const Arena::Entry entry = arena.entry(i);
    v1::SaveChunk chunk, arrived;
    chunk.set_epoch(id.epoch);
    chunk.set_step(id.step);
    chunk.set_item(*entry.name);
    chunk.set_scope(v1::SCOPE_SHARED);
    chunk.set_item_bytes(entry.item_bytes);
    chunk.set_offset(entry.offset);
    chunk.set_checksum(digests[i]);
    grpc::ByteBuffer message;
    stages->Run("message", [&] { message = ChunkMessage(chunk, entry.data, arena.memory()); });
    stages->Run("parsed, which copies it", [&] {
      RW_CHECK(grpc::SerializationTraits<v1::SaveChunk>::Deserialize(&message, &arrived).ok());
    });
    stages->Run("digest compared, written to the table",
                [&] { RW_CHECK(stripe->Add(arrived).ok()); });
  }
  stages->Run("table synced", [&] { RW_CHECK(stripe->Finish().ok()); });
  stages->Run("table taken in", [&] { RW_CHECK(store->Ingest({stripe.get()}).ok()); });
  stages->Run("manifest", [&] {
    auto manifest = Assemble({{0, stripe->TakeItems()}}, store->HomesFor(id));
    RW_CHECK(manifest.ok());
    manifest->set_job(1);
    manifest->set_epoch(id.epoch);
    manifest->set_step(id.step);
    manifest->set_world(1);
    RW_CHECK(store->Publish(*manifest, store->openings()).ok());
  });
  Status found;
  stages->Run("read back, digest compared", [&] { found = store->ReadBack(id); });
  RW_CHECK(found.ok());
  stages->Run("older ones removed", [&] { store->Settle(id, found); });
}

int Main(int count, char** words) {
  SetLog(LogLevel::kWarning, "bench");
  std::string folder = std::string(count > 1 ? words[1] : ".") + "/checkpoint-bench-XXXXXX";
  const auto bytes = ParseBytes(count > 2 ? words[2] : "256M");
  const int turns = count > 3 ? std::atoi(words[3]) : 3;
  if (!bytes.ok() || *bytes == 0 || turns < 1 || mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "checkpoint_stages_bench [DIRECTORY [BYTES [TURNS]]]\n");
    return 2;
  }
  Buffer<std::byte> state(*bytes);
  Stages stages;
  {
    auto store = CheckpointStore::Open(folder + "/store");
    RW_CHECK(store.ok());
    for (int turn = 1; turn <= turns; ++turn) {
      Random random(static_cast<uint64_t>(turn));
      for (size_t at = 0; at + sizeof(uint64_t) <= *bytes; at += sizeof(uint64_t)) {
        const uint64_t word = random.Next();
        std::copy_n(reinterpret_cast<const std::byte*>(&word), sizeof word, state.data() + at);
      }
      Save(&stages, store->get(), static_cast<uint64_t>(turn), {{"weights", true, state.span()}});
      stages.Run("plain file: written, synced",
                 [&] { WritePlain(folder + "/plain", state.span()); });
      stages.Run("plain file: read, cold", [&] { ReadPlain(folder + "/plain"); });
    }
  }
  stages.Print(turns * static_cast<double>(*bytes) / 1e9);
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int count, char** words) { return ringwood::Main(count, words); }
