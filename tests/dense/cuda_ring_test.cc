// The ring over NCCL: its contract with 2 and 4 ranks, each a process of its own, on one device;
// skipped where there is no device or no NCCL. NCCL takes several ranks on one device when each
// says that it is another host.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/cuda/device.h"
#include "base/digest.h"
#include "base/random.h"
#include "dense/arithmetic/half.h"
#include "dense/cuda/device_ring.h"
#include "dense/cuda/word_digest.h"

namespace ringwood {
namespace {

TEST(WordDigest, SeesEveryByteAndItsPlace) {
  std::vector<unsigned char> bytes(11);
  std::iota(bytes.begin(), bytes.end(), 1);
  const uint64_t digest = WordDigest(bytes.data(), bytes.size());
  for (unsigned char& byte : bytes) {
    byte ^= 64;
    EXPECT_NE(WordDigest(bytes.data(), bytes.size()), digest);
    byte ^= 64;
  }
  const std::vector<uint32_t> ab = {1, 2}, ba = {2, 1};
  EXPECT_NE(WordDigest(ab.data(), 8), WordDigest(ba.data(), 8));
  EXPECT_NE(WordDigest(ab.data(), 0), WordDigest(ab.data(), 4));
}

TEST(DeviceRing, WhatIsMissingIsSaidWithTheRemedy) {
  const auto id = MakeDeviceRingId("/nonexistent/libnccl.so.2");
  ASSERT_EQ(id.status().code(), StatusCode::kFailedPrecondition);
  const std::string message = Message(id.status());
  EXPECT_TRUE(message.find("install") != std::string::npos) << message;
}

TEST(DeviceRing, EveryEpochHasAnIdOfItsOwn) {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const auto first = MakeDeviceRingId("");
  if (!first.ok()) GTEST_SKIP() << "skipped: " << Message(first.status());
  EXPECT_EQ(first->size(), 128u);
  EXPECT_NE(*MakeDeviceRingId(""), *first);
}

// What one rank has of a tensor that travels as codes.
struct CodedShare {
  explicit CodedShare(size_t count) : values(count), error(count), reach(LatticeBlocks(count)) {}
  void Bring(uint64_t seed) {
    Random random(seed);
    for (float& value : values) value = static_cast<float>(random.Unit() - 0.5);
  }
  std::vector<float> values, error;
  std::vector<BlockReach> reach;
};

// One round of all ranks: the sum, and their errors and reaches after it.
std::vector<float> SumOnTheCpu(std::vector<CodedShare>& ranks, int levels) {
  const size_t count = ranks[0].values.size(), blocks = ranks[0].reach.size();
  const int world = static_cast<int>(ranks.size());
  std::vector<std::byte> partial, sum;
  for (int r = 0; r < world; ++r) {
    CodedShare& rank = ranks[r];
    std::vector<float> next(count);
    sum.assign(PackedBytes(blocks, LatticeWidth(levels, r + 1)), std::byte{0});
    AddSource(
        {rank.values.data(), rank.error.data(), next.data(), rank.reach.data(), count, levels},
        partial.data(), r, sum.data());
    rank.error = next;
    partial.swap(sum);
  }
  std::vector<float> output(count);
  std::vector<BlockReach> next(blocks);
  DecodeSum(partial.data(), world,
            {output.data(), ranks[0].reach.data(), next.data(), count, levels});
  for (CodedShare& rank : ranks) rank.reach = next;
  return output;
}

constexpr int kCalls = 5;                  // at once
constexpr uint64_t kMost = (1 << 20) + 1;  // elements of one

// One rank's end of the contract. Every method waits for the answer. All memory is there before the
// first call: of four ranks that shared an H200 and allocated between their calls, one never came
// back from CUDA while the others' kernels waited for it.
class DeviceRank {
 public:
  DeviceRank(int rank, int world, int of_a_host, const std::string& id)
      : rank_(rank), world_(world) {
    for (auto& array : arrays_) array = *MakeDeviceArray(0, 2 * kMost * sizeof(float));
    for (auto& array : reach_)
      array = *MakeDeviceArray(0, LatticeBlocks(kMost) * sizeof(BlockReach));
    status_ = loop_.Call(
        [&]() -> Status {
          DeviceRingOptions options;
          options.rank = rank;
          options.world = world;
          options.hosts = EvenHosts(world, of_a_host);
          options.id = id;
          options.timeout_seconds = 60;  // the first one loads the driver and the kernels
          RW_ASSIGN_OR_RETURN(ring_, MakeDeviceRing(&loop_, options));
          return OkStatus();
        },
        Seconds(90));
  }
  ~DeviceRank() {
    const Status closed = loop_.Call(
        [&] {
          ring_.reset();
          return OkStatus();
        },
        Seconds(90));
    EXPECT_TRUE(closed.ok()) << Message(closed);
  }

  const Status& status() const { return status_; }

  // `kCalls` sums at once, every other one in place: element i of call c is rank + c + i mod 7, so
  // the sum is known.
  void SumSeveral(uint64_t count) {
    std::vector<StatusOr<AllReduceResult>> results(kCalls, Internal("not answered"));
    std::vector<absl::Notification> done(kCalls);
    std::vector<float> host(count);
    for (int c = 0; c < kCalls; ++c) {
      for (uint64_t i = 0; i < count; ++i) host[i] = static_cast<float>(rank_ + c + i % 7);
      ASSERT_TRUE(arrays_[c]->Upload(std::as_bytes(std::span(host))).ok());
      loop_.Post([&, c] {
        DeviceReduction reduction;
        reduction.group = c;
        reduction.input = arrays_[c]->data();
        reduction.output = static_cast<float*>(arrays_[c]->data()) + (c % 2 == 0 ? count : 0);
        reduction.count = count;
        ring_->AllReduce(reduction, [&, c](StatusOr<AllReduceResult> result) {
          results[c] = std::move(result);
          done[c].Notify();
        });
      });
    }
    for (int c = 0; c < kCalls; ++c) {
      ASSERT_TRUE(done[c].WaitForNotificationWithTimeout(absl::Seconds(90)));
      ASSERT_TRUE(results[c].ok()) << Message(results[c].status());
      const std::vector<float> both = Get<float>(*arrays_[c], 2 * count);
      const float* const sums = both.data() + (c % 2 == 0 ? count : 0);
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(sums[i], world_ * (c + i % 7) + world_ * (world_ - 1) / 2) << i;
        if (c % 2 == 0) ASSERT_EQ(both[i], rank_ + c + i % 7) << "the input was written";
      }
      EXPECT_EQ(results[c]->digest, WordDigest(sums, count * sizeof(float)));
    }
  }

  // Whole numbers that bfloat16 holds, as their sums. Apart, then in place.
  void SumBFloat16(uint64_t count) {
    std::vector<uint16_t> mine(count), sums(count);
    for (uint64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int r = 0; r < world_; ++r) sum += static_cast<float>((i + 3 * r) % 16);
      mine[i] = ToBFloat16(static_cast<float>((i + 3 * rank_) % 16));
      sums[i] = ToBFloat16(sum);
    }
    ASSERT_TRUE(arrays_[0]->Upload(std::as_bytes(std::span(mine))).ok());
    DeviceReduction reduction;
    reduction.type = DataType::kBFloat16;
    reduction.input = arrays_[0]->data();
    reduction.output = arrays_[1]->data();
    reduction.count = count;
    const StatusOr<AllReduceResult> result = Reduce(reduction);
    ASSERT_TRUE(result.ok()) << Message(result.status());
    EXPECT_EQ(Get<uint16_t>(*arrays_[1], count), sums);
    EXPECT_EQ(Get<uint16_t>(*arrays_[0], count), mine) << "the input was written";
    EXPECT_EQ(result->digest, WordDigest(sums.data(), count * sizeof(uint16_t)));
    reduction.output = arrays_[0]->data();
    ASSERT_TRUE(Reduce(reduction).ok());
    EXPECT_EQ(Get<uint16_t>(*arrays_[0], count), sums);
  }

  // Three rounds of codes, whose next errors come where the input was; all ranks know what all
  // bring, and so what the CPU's codec makes of it.
  void SumCodes(int bits, uint64_t count) {
    std::vector<CodedShare> shares(world_, CodedShare(count));
    CodedShare& mine = shares[rank_];
    DeviceArray* const output = arrays_[1].get();
    DeviceArray* const rotating[] = {arrays_[0].get(), arrays_[2].get()};
    DeviceArray* const reach[] = {reach_[0].get(), reach_[1].get()};
    ASSERT_TRUE(rotating[0]->Upload(std::as_bytes(std::span(mine.error))).ok());
    for (DeviceArray* array : reach) {
      ASSERT_TRUE(array->Upload(std::as_bytes(std::span(mine.reach))).ok());
    }
    for (int round = 0; round < 3; ++round) {
      for (int r = 0; r < world_; ++r) shares[r].Bring(100 * round + r);
      const int present = round % 2, next = 1 - present;
      DeviceArray* const input = rotating[next];
      ASSERT_TRUE(input->Upload(std::as_bytes(std::span(mine.values))).ok());
      DeviceReduction reduction;
      reduction.round = round;
      reduction.input = input->data();
      reduction.output = output->data();
      reduction.count = count;
      reduction.codes = {bits, static_cast<const float*>(rotating[present]->data()),
                         static_cast<float*>(input->data()),
                         static_cast<const BlockReach*>(reach[present]->data()),
                         static_cast<BlockReach*>(reach[next]->data())};
      const StatusOr<AllReduceResult> result = Reduce(reduction);
      ASSERT_TRUE(result.ok()) << Message(result.status());
      EXPECT_FALSE(result->non_finite);
      const std::vector<BlockReach> before = mine.reach;
      const std::vector<float> expected = SumOnTheCpu(shares, LatticeLevels(bits));
      EXPECT_EQ(Get<float>(*output, count), expected);
      EXPECT_EQ(Get<float>(*input, count), mine.error);
      EXPECT_EQ(Get<BlockReach>(*reach[next], mine.reach.size()), mine.reach);
      const auto digest = [](const auto& values) {
        return WordDigest(values.data(), std::as_bytes(std::span(values)).size());
      };
      EXPECT_EQ(result->digest,
                Combine(Combine(digest(expected), digest(before)), digest(mine.reach)));
    }
  }

  void BroadcastFrom(int root, uint64_t bytes) {
    DeviceArray* const array = arrays_[0].get();
    std::vector<std::byte> host(bytes, static_cast<std::byte>(rank_ + 1));
    ASSERT_TRUE(array->Upload(host).ok());
    absl::Notification done;
    Status status;
    loop_.Post([&] {
      ring_->Broadcast({1, 2, root, array->data(), bytes, nullptr}, [&](Status answer) {
        status = answer;
        done.Notify();
      });
    });
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
    ASSERT_TRUE(status.ok()) << Message(status);
    ASSERT_TRUE(array->Download(host).ok());
    EXPECT_EQ(host, std::vector<std::byte>(bytes, static_cast<std::byte>(root + 1)));
  }

  // A call that the others never make: Close answers it with its reason.
  void CloseAnswersACallThatCannotEnd() {
    DeviceArray* const array = arrays_[0].get();
    absl::Notification done;
    Status status;
    loop_.Post([&] {
      DeviceReduction reduction;
      reduction.input = reduction.output = array->data();
      reduction.count = 1024;
      ring_->AllReduce(reduction, [&](StatusOr<AllReduceResult> result) {
        status = result.status();
        done.Notify();
      });
    });
    EXPECT_FALSE(done.WaitForNotificationWithTimeout(absl::Seconds(1)));
    const Status closed =
        loop_.Call([&] { return ring_->Close(Aborted("rank 5 fell silent")); }, Seconds(30));
    EXPECT_TRUE(closed.ok()) << Message(closed);
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_NE(Message(status).find("rank 5 fell silent"), std::string::npos);
  }

 private:
  template <typename T>
  static std::vector<T> Get(const DeviceArray& array, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(array.Download(std::as_writable_bytes(std::span(values))).ok());
    return values;
  }
  StatusOr<AllReduceResult> Reduce(const DeviceReduction& reduction) {
    StatusOr<AllReduceResult> answer = Internal("not answered");
    absl::Notification done;
    loop_.Post([&] {
      ring_->AllReduce(reduction, [&](StatusOr<AllReduceResult> result) {
        answer = std::move(result);
        done.Notify();
      });
    });
    done.WaitForNotificationWithTimeout(absl::Seconds(30));
    return answer;
  }

  const int rank_;
  const int world_;
  Loop loop_{"rank"};
  std::unique_ptr<DeviceArray> arrays_[kCalls], reach_[2];
  std::unique_ptr<DeviceRing> ring_;  // touched on loop_
  Status status_;
};

// Runs in the processes that the tests below start, and nowhere else.
TEST(DeviceRingRank, KeepsTheContract) {
  const char* const rank_text = std::getenv("RINGWOOD_TEST_RING_RANK");
  if (rank_text == nullptr) GTEST_SKIP() << "one rank of DeviceRing's tests";
  const int rank = std::atoi(rank_text);
  const int world = std::atoi(std::getenv("RINGWOOD_TEST_RING_WORLD"));
  const int of_a_host = std::atoi(std::getenv("RINGWOOD_TEST_RING_OF_A_HOST"));
  DeviceRank end(rank, world, of_a_host,
                 absl::HexStringToBytes(std::getenv("RINGWOOD_TEST_RING_ID")));
  ASSERT_TRUE(end.status().ok()) << Message(end.status());
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{4096}, kMost})
    end.SumSeveral(count);
  for (const uint64_t count : {uint64_t{1}, uint64_t{4097}, kMost}) end.SumBFloat16(count);
  for (const uint64_t bytes : {1, 1000003}) end.BroadcastFrom(world - 1, bytes);
  for (const int bits : {8, 4}) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{4096}, kMost}) end.SumCodes(bits, count);
  }
  if (rank == 0) {
    end.CloseAnswersACallThatCannotEnd();
  } else {
    absl::SleepFor(absl::Seconds(4));  // here, but silent
  }
}

// This program once more in this process, with `flag` as its only one of GoogleTest's: what stands
// before them stays, since a packed program is started by a loader that it brings.
[[noreturn]] void StartAgain(std::string flag) {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0') && word.rfind("--gtest_", 0) != 0;) {
    words.push_back(word);
  }
  words.push_back(std::move(flag));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  _exit(127);
}

// `of_a_host`: ranks that are taken for those of one host. To NCCL each has its own.
void RunRanks(int world, int of_a_host) {
  if (!CountDevices().ok()) GTEST_SKIP() << "skipped: no device";
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);  // where the id's maker listens
  const auto id = MakeDeviceRingId("");
  if (!id.ok()) GTEST_SKIP() << "skipped: " << Message(id.status());
  std::vector<pid_t> children;
  for (int rank = 0; rank < world; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    const std::pair<const char*, std::string> settings[] = {
        {"RINGWOOD_TEST_RING_RANK", std::to_string(rank)},
        {"RINGWOOD_TEST_RING_WORLD", std::to_string(world)},
        {"RINGWOOD_TEST_RING_OF_A_HOST", std::to_string(of_a_host)},
        {"RINGWOOD_TEST_RING_ID", std::string(absl::BytesToHexString(*id))},
        {"NCCL_HOSTID", absl::StrFormat("host%d", rank)},
        {"NCCL_NET", "Socket"},
        {"NCCL_SOCKET_IFNAME", "lo"},
        {"NCCL_P2P_DISABLE", "1"},
        {"NCCL_SHM_DISABLE", "1"},
        {"NCCL_MNNVL_ENABLE", "0"},
        {"NCCL_CUMEM_ENABLE", "0"},
        {"NCCL_MAX_NCHANNELS", "1"}};
    for (const auto& [name, value] : settings) setenv(name, value.c_str(), 1);
    StartAgain("--gtest_filter=DeviceRingRank.*");
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a rank failed: " << status;
  }
}

TEST(DeviceRing, TwoRanksOnOneDeviceKeepTheContract) { RunRanks(2, 1); }
TEST(DeviceRing, FourRanksOnOneDeviceKeepTheContract) { RunRanks(4, 1); }
TEST(DeviceRing, FourRanksOfTwoHostsKeepTheContract) { RunRanks(4, 2); }

}  // namespace
}  // namespace ringwood
