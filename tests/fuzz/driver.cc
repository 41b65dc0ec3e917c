// A small coverage-guided engine for the fuzz targets, for machines without libFuzzer: takes its
// flags (-max_total_time, -runs, -seed, -max_len, -timeout, -artifact_prefix) and folders, the
// first of which receives what it finds. The targets are compiled with
// -fsanitize-coverage=trace-pc, this file is not (tests/fuzz/run).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;
constexpr size_t kEdges = 1 << 16;
constexpr size_t kMaxPool = 1 << 14;
std::array<uint8_t, kEdges> hits;  // of the present input, by edge
uintptr_t before;                  // where the edge begins

struct Flags {
  long seconds = 30, runs = -1, max_bytes = 4096, timeout = 20;
  unsigned long seed = 0;  // 0: another one in every run
  std::string artifacts;
  std::vector<std::string> folders;
};

Flags Parse(int count, char** arguments) {
  Flags flags;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const auto takes = [&](const std::string& name) { return word.rfind(name, 0) == 0; };
    const std::string value = word.substr(word.find('=') + 1);
    if (takes("-max_total_time=")) {
      flags.seconds = std::stol(value);
    } else if (takes("-runs=")) {
      flags.runs = std::stol(value);
    } else if (takes("-max_len=")) {
      flags.max_bytes = std::stol(value);
    } else if (takes("-timeout=")) {
      flags.timeout = std::stol(value);
    } else if (takes("-seed=")) {
      flags.seed = std::stoul(value);
    } else if (takes("-artifact_prefix=")) {
      flags.artifacts = value;
    } else if (!takes("-")) {
      flags.folders.push_back(word);
    }
  }
  return flags;
}

std::vector<Input> Read(const std::vector<std::string>& folders) {
  std::vector<Input> inputs;  // in an order that does not depend on the disk
  for (const std::string& folder : folders) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      std::ifstream in(file.path(), std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

class Engine {
 public:
  explicit Engine(const Flags& flags) : flags_(flags) {
    // Every input stands in a file while it runs, so that it survives what it does.
    const std::string path = flags.artifacts + "last";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0) std::exit(2);
    file_ = file;
    path_ = path;
  }

  void Fuzz() {
    for (const Input& input : Read(flags_.folders)) {
      if (Run(input)) pool_.push_back(input);
    }
    if (pool_.empty()) pool_.push_back({});
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(flags_.seconds);
    while (flags_.runs < 0 && std::chrono::steady_clock::now() < end) {
      Input input = Mutate(pool_[Below(pool_.size())]);
      if (Run(input) && pool_.size() < kMaxPool) Keep(std::move(input));
    }
    std::filesystem::remove(path_);
    std::fprintf(stderr, "stat::number_of_executed_units: %ld\nstat::new_units_added: %ld\n", runs_,
                 added_);
  }

 private:
  // True if it went where none before it did, or oftener.
  bool Run(const Input& input) {
    if (ftruncate(file_, 0) != 0 ||
        pwrite(file_, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
      std::exit(2);
    }
    hits.fill(0);
    before = 0;
    alarm(static_cast<unsigned>(flags_.timeout));
    const Input copy(input);  // of exactly its size, so that reading past it is seen
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
    alarm(0);
    ++runs_;
    bool fresh = false;
    for (size_t edge = 0; edge < kEdges; ++edge) {
      uint64_t eight = 0;
      if (edge % 8 == 0) std::memcpy(&eight, &hits[edge], 8);
      if (edge % 8 == 0 && eight == 0) edge += 7;
      if (hits[edge] == 0) continue;
      const uint8_t times = static_cast<uint8_t>(1 << (31 - __builtin_clz(hits[edge])));
      fresh |= (seen_[edge] & times) == 0;
      seen_[edge] |= times;
    }
    return fresh;
  }

  void Keep(Input input) {
    const std::string name =
        flags_.folders.at(0) + "/" + std::to_string(getpid()) + "_" + std::to_string(++added_);
    std::ofstream(name, std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    pool_.push_back(std::move(input));
  }

  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  Input Mutate(Input input) {
    for (size_t times = 1 + Below(6); times > 0; --times) {
      const size_t at = Below(input.size()), length = 1 + Below(Below(4) == 0 ? 64 : 8);
      const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
      const auto rest = std::min(length, input.size() - at);
      const size_t kind = input.empty() ? 3 : Below(8);
      if (kind == 0) *here ^= static_cast<uint8_t>(1 << Below(8));
      if (kind == 1) *here = static_cast<uint8_t>(random_());
      if (kind == 2) *here = std::array<uint8_t, 6>{0, 1, 0x7f, 0x80, 0xff, '9'}[Below(6)];
      if (kind == 3) input.insert(here, length, static_cast<uint8_t>(random_()));
      if (kind == 4) input.erase(here, here + static_cast<std::ptrdiff_t>(rest));
      if (kind == 5) {  // a part of another, or of itself
        const Input other = pool_[Below(pool_.size())];
        const size_t from = Below(other.size()), size = std::min(length * 4, other.size() - from);
        input.insert(here, other.begin() + static_cast<std::ptrdiff_t>(from),
                     other.begin() + static_cast<std::ptrdiff_t>(from + size));
      }
      if (kind == 6) std::copy_n(input.begin() + Below(input.size() - rest + 1), rest, here);
      if (kind == 7) input.resize(at);
    }
    input.resize(std::min(input.size(), static_cast<size_t>(flags_.max_bytes)));
    return input;
  }

  const Flags flags_;
  int file_ = -1;
  std::string path_;
  std::vector<Input> pool_;
  std::array<uint8_t, kEdges> seen_{};
  std::mt19937_64 random_{flags_.seed != 0 ? flags_.seed : std::random_device{}()};
  long runs_ = 0, added_ = 0;
};

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = hits[(here ^ before) % kEdges];
  if (count < 255) ++count;
  before = here >> 1;
}

int main(int count, char** arguments) { Engine(Parse(count, arguments)).Fuzz(); }
