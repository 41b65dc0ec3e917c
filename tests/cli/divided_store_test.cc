// Checkpoints that two servers share, each with the stripes of some ranks: over loopback, as ranks
// and readers see them, and what is left when a server dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <list>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "base/random.h"
#include "client/checkpoint/restore.h"
#include "client/grpc/control.h"
#include "client/grpc/reader_client.h"
#include "client/grpc/store_client.h"
#include "client/pull/pull.h"
#include "proto/own_connection.h"
#include "proto/store_places.h"
#include "server/server.h"
#include "server/store/record/manifest.h"
#include "server/store/store_directory.h"
#include "server/store/view/parts_view.h"
#include "server/store/view/store_view.h"
#include "tests/cli/still_relay.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

// Of several pieces, so that each rank has some, and small ones.
std::vector<std::pair<std::string, std::string>> StateOf(uint64_t step, int rank) {
  std::vector<std::pair<std::string, std::string>> state;
  Random random(step * 10 + (rank < 0 ? 9 : rank));
  for (int i = 0; i < 40; ++i) {
    const size_t bytes = i % 20 == 7 ? (5 << 20) + 11 : i % 10 == 3 ? 0 : 100 + i;
    std::string data(bytes, '\0');
    for (size_t at = 0; at < bytes; at += 997) data[at] = static_cast<char>(random.Next());
    state.emplace_back(absl::StrFormat("%s.%02d", rank < 0 ? "model" : "own", i), std::move(data));
  }
  return state;
}

class DividedStore : public testing::Test {
 protected:
  DividedStore() {
    std::string pattern = testing::TempDir() + "/ringwood-divided-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    Start();
    const Status joined = Join(false);
    EXPECT_TRUE(joined.ok()) << Message(joined);
  }
  ~DividedStore() override {
    Stop();
    fs::remove_all(directory_);
  }

  // The coordinator's store, and that of the reducer on "another" host.
  void Start() {
    ServerOptions options;
    options.insecure = true;
    options.servers = 1;
    options.reducer_index = 1;
    options.store = MainStore();
    options.host = "h1";
    StartOne(options, &main_);
    StartFurther();
  }
  void StartFurther() {
    ServerOptions options;
    options.insecure = true;
    options.coordinator = Address();
    options.store = FurtherStore();
    options.host = "h2";
    StartOne(options, &further_);
  }
  static void StartOne(const ServerOptions& options, std::unique_ptr<Server>* server) {
    auto started = Server::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    *server = *std::move(started);
  }
  void Stop() {
    ranks_.clear();
    if (further_ != nullptr) further_->Stop();
    further_.reset();
    if (main_ != nullptr) main_->Stop();
    main_.reset();
  }
  std::string MainStore() const { return directory_ + "/a"; }
  std::string FurtherStore() const { return directory_ + "/b"; }
  std::string Address() const { return absl::StrFormat("127.0.0.1:%d", main_->port()); }

  struct Rank {
    std::unique_ptr<Control> control;
    std::unique_ptr<StoreClient> store;
    StatusOr<v1::JoinResponse> joined = Internal("not yet");
  };
  // All ranks, or why not.
  Status Join(bool resume, int world = kRanks) {
    ranks_.clear();
    std::list<std::thread> joining;
    for (int rank = 0; rank < world; ++rank) {
      Rank& one = ranks_.emplace_back();
      one.control = MakeGrpcControl(Address(), "");
      one.store = MakeGrpcStoreClient(Address(), "");
      v1::JoinRequest request;
      request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
      request.set_role(v1::ROLE_WORKER);
      request.set_rank(static_cast<uint32_t>(rank));
      request.set_world(static_cast<uint32_t>(world));
      request.set_host("here");
      request.set_incarnation(static_cast<uint64_t>(rank) + 1);
      request.set_fabric_address("none");
      request.set_resume(resume);
      joining.emplace_back(
          [&one, request] { one.joined = one.control->Join(request, Seconds(60)); });
    }
    for (std::thread& thread : joining) thread.join();
    for (const Rank& rank : ranks_) RW_RETURN_IF_ERROR(rank.joined.status());
    return OkStatus();
  }
  Rank& rank(int number) { return *std::next(ranks_.begin(), number); }
  uint64_t epoch() { return rank(0).joined->epoch(); }
  int FurtherPort() {
    const auto stores = FurtherStores(rank(1).joined->members(), kRanks);
    EXPECT_EQ(stores.size(), 1u);
    return ParseEndpoint(stores.front().address)->port;
  }

  // `through`: the address by which the further store is called.
  Status Save(uint64_t step, int number, const std::string& through = "") {
    std::vector<Item> items;
    const auto shared = StateOf(step, -1), own = StateOf(step, number);
    for (const auto& [name, data] : shared) {
      items.push_back({name, true, std::as_bytes(std::span(data))});
    }
    for (const auto& [name, data] : own) {
      items.push_back({name, false, std::as_bytes(std::span(data))});
    }
    Arena arena(1 << 30);
    RW_RETURN_IF_ERROR(arena.Fill(items, number, kRanks));
    const auto stores = FurtherStores(rank(number).joined->members(), kRanks);
    EXPECT_EQ(stores.size(), 1u);
    const uint32_t store = StoreOfRank(static_cast<uint32_t>(number), stores.size());
    StripeName stripe{epoch(), step, static_cast<uint32_t>(number), kRanks,
                      static_cast<uint64_t>(number) + 1};
    if (store > 0) stripe.store = through.empty() ? stores[store - 1].address : through;
    return rank(number).store->Save(stripe, arena, Seconds(60), [](uint64_t) {});
  }
  Status SaveAll(uint64_t step) {
    std::list<std::thread> saving;
    std::vector<Status> saved(kRanks);
    for (int number = kRanks - 1; number >= 0; --number) {  // those that must wait come first
      saving.emplace_back([this, step, number, &saved] { saved[number] = Save(step, number); });
    }
    for (std::thread& thread : saving) thread.join();
    for (const Status& status : saved) RW_RETURN_IF_ERROR(status);
    return rank(0).store->Await({epoch(), step}, Seconds(60));
  }

  void CheckAll(uint64_t from_epoch, uint64_t step, int number, int world = kRanks) {
    Restore from(rank(number % world).store.get(), {from_epoch, step}, number);
    for (const bool shared : {true, false}) {
      for (const auto& [name, expected] : StateOf(step, shared ? -1 : number)) {
        const auto bytes = from.Bytes(name, shared);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_EQ(*bytes, expected.size());
        std::string data(expected.size(), '?');
        const Status read = from.Read(name, shared, std::as_writable_bytes(std::span(data)));
        ASSERT_TRUE(read.ok()) << read;
        ASSERT_TRUE(data == expected) << name;
      }
    }
  }

  std::vector<uint64_t> StepsOf(const std::string& folder) const {
    std::vector<uint64_t> steps;
    auto db = OpenToRead(folder, folder);
    if (!db.ok()) return steps;
    const auto complete = CheckpointReader(db->get(), folder).Complete();
    for (const CheckpointId& id : complete.value_or(std::vector<CheckpointId>())) {
      steps.push_back(id.step);
    }
    return steps;
  }
  std::vector<uint64_t> Parts() const { return StepsOf(PartsFolder(FurtherStore(), 0)); }
  std::vector<uint64_t> Wholes() const { return StepsOf(MainStore() + "/checkpoints"); }

  std::string directory_;
  std::unique_ptr<Server> main_, further_;
  std::list<Rank> ranks_;
};

TEST_F(DividedStore, EveryItemComesBackWholeToRanksAndReaders) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  EXPECT_THAT(Wholes(), ElementsAre(7));
  EXPECT_THAT(Parts(), ElementsAre(7));
  for (int number = 0; number < kRanks; ++number) CheckAll(epoch(), 7, number);
  PullOptions options;
  options.server = Address();
  options.newest_stored = true;
  auto pulled = Pulled::Open(options, MakeGrpcReaderClient({Address(), "", ""}));
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  const auto state = StateOf(7, -1);
  int checked = 0;
  for (const v1::StoredItem& item : (*pulled)->manifest().items()) {
    if (item.scope() != v1::SCOPE_SHARED) continue;
    std::string data(item.bytes(), '?');
    const Status read = (*pulled)->Read(item, std::as_writable_bytes(std::span(data)));
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_TRUE(data == state[checked].second) << item.name();
    ++checked;
  }
  EXPECT_EQ(checked, 40);
}

TEST_F(DividedStore, TheDirectoriesTogetherAreACheckpoint) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  Stop();
  const auto list = ListCheckpoints(MainStore());
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->front().stores, 2);
  const auto shown = ShowCheckpoint(MainStore(), {});
  ASSERT_TRUE(shown.ok());
  EXPECT_THAT(ToString(*shown), HasSubstr("part 1 of 2"));
  EXPECT_THAT(ToString(*shown), HasSubstr("server 0 (host h2, " + FurtherStore()));
  const Status alone = VerifyCheckpoint(MainStore(), {});
  EXPECT_EQ(alone.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(alone), HasSubstr("name it with a further --store"));
  const Status both = VerifyCheckpoint(MainStore(), {}, {}, {FurtherStore()});
  EXPECT_TRUE(both.ok()) << both;
  EXPECT_THAT(Message(ListCheckpoints(FurtherStore()).status()), HasSubstr("only parts"));
}

TEST_F(DividedStore, OldOnesGoFromBoth) {
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_EQ(SaveAll(step), OkStatus()) << step;
  for (int i = 0; i < 1200 && (Wholes().size() > 2 || Parts().size() > 2); ++i) usleep(50'000);
  EXPECT_THAT(Wholes(), ElementsAre(5, 4));
  EXPECT_THAT(Parts(), ElementsAre(5, 4));
  for (int number = 0; number < kRanks; ++number) CheckAll(epoch(), 4, number);
}

TEST_F(DividedStore, AJobContinuesFromItInAnotherWorld) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  const uint64_t saved = epoch();
  Stop();
  Start();
  const Status joined = Join(true, 2);
  ASSERT_TRUE(joined.ok()) << joined;
  EXPECT_EQ(rank(0).joined->base_step(), 7u);
  for (int number = 0; number < kRanks; ++number) CheckAll(saved, 7, number, 2);
}

TEST_F(DividedStore, AStoreThatIsNotThereIsNamed) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  Stop();
  fs::rename(FurtherStore(), directory_ + "/gone");
  Start();
  const Status refused = Join(true);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(Message(refused), HasSubstr("server 0 (host h2, " + FurtherStore()));
  EXPECT_THAT(Message(refused), HasSubstr("none of the stores of this job"));
  Stop();
  fs::remove_all(FurtherStore());
  fs::rename(directory_ + "/gone", FurtherStore());
  Start();
  EXPECT_TRUE(Join(true).ok());
  EXPECT_EQ(rank(0).joined->base_step(), 7u);
}

TEST_F(DividedStore, ADamagedPartMakesTheWholeBad) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  Stop();
  std::set<fs::path> before;
  const fs::path parts = PartsFolder(FurtherStore(), 0);
  for (const auto& entry : fs::directory_iterator(parts)) before.insert(entry.path());
  Start();
  ASSERT_TRUE(Join(true).ok());
  ASSERT_EQ(SaveAll(8), OkStatus());
  Stop();
  int damaged = 0;
  for (const auto& entry : fs::directory_iterator(parts)) {
    if (before.contains(entry.path()) || entry.path().extension() != ".sst") continue;
    if (entry.file_size() < (1 << 20)) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.write("damaged", 7);
    ++damaged;
  }
  ASSERT_EQ(damaged, 1);
  Start();
  const Status joined = Join(true);
  ASSERT_TRUE(joined.ok()) << joined;
  EXPECT_EQ(rank(0).joined->base_step(), 7u);
  CheckAll(rank(0).joined->base_epoch(), 7, 1);
}

TEST_F(DividedStore, OneThatDiesUnderACheckpointFailsIt) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  std::thread main_ranks([this] {
    EXPECT_TRUE(Save(8, 0).ok());
    EXPECT_TRUE(Save(8, 2).ok());
  });
  main_ranks.join();
  further_->Stop();
  const Status failed = rank(0).store->Await({epoch(), 8}, Seconds(60));
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(Message(failed), HasSubstr("the store of server 0 (host h2)"));
  EXPECT_THAT(Wholes(), ElementsAre(7));
  further_.reset();
}

// For longer than an attempt to connect takes that is given up early.
TEST_F(DividedStore, OneThatStandsStillWhileARankConnectsGetsItsStripe) {
  StillRelay relay(main_->port());
  relay.Forward(kEagerReconnection.attempt_milliseconds / 1000.0 + 0.1);
  rank(2).store = MakeGrpcStoreClient(relay.address(), "", false);
  ASSERT_EQ(SaveAll(7), OkStatus());
  CheckAll(epoch(), 7, 2);
}

// However long a store that stands still is waited for.
TEST_F(DividedStore, OfSeveralAddressesOneThatStandsStillIsPassedOver) {
  const StillRelay relay(main_->port());
  rank(2).store = MakeGrpcStoreClient(relay.address() + "," + Address(), "", false, Seconds(3600));
  ASSERT_EQ(SaveAll(7), OkStatus());
  CheckAll(epoch(), 7, 2);
}

TEST_F(DividedStore, OneThatStandsStillUnderAStripeIsGivenUp) {
  StillRelay relay(FurtherPort());
  relay.Forward(0, 1 << 20);
  rank(1).store = MakeGrpcStoreClient(Address(), "", false, Seconds(2));
  std::thread main_rank([this] { EXPECT_TRUE(Save(7, 0).ok()); });
  const Status given_up = Save(7, 1, relay.address());
  main_rank.join();
  relay.AwaitStill();
  EXPECT_EQ(given_up.code(), StatusCode::kUnavailable) << given_up;
  EXPECT_THAT(Message(given_up), HasSubstr("save at the store " + relay.address()));
}

// As one does that is stopped, and that another epoch of an elastic job begins without.
TEST_F(DividedStore, AStripeForOneThatStandsStillEndsWithItsCheckpoint) {
  StillRelay relay(FurtherPort());
  relay.Forward(0, 3000);  // of the list of what the store is to read from this process
  std::thread main_rank([&] {
    EXPECT_TRUE(Save(7, 0).ok());
    relay.AwaitStill();
    further_->Stop();
  });
  const Status stripe = Save(7, 1, relay.address());
  main_rank.join();
  EXPECT_EQ(stripe.code(), StatusCode::kUnavailable) << stripe;
  EXPECT_THAT(Message(stripe), HasSubstr("the store of server 0 (host h2)"));
  further_.reset();
}

TEST_F(DividedStore, APartOfNoWholeGoesWhenTheJobRunsAgain) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  std::thread first([this] { EXPECT_TRUE(Save(8, 0).ok()); });
  EXPECT_TRUE(Save(8, 1).ok());
  first.join();
  for (int i = 0; i < 1200 && Parts().size() < 2; ++i) usleep(50'000);
  EXPECT_THAT(Parts(), ElementsAre(8, 7));
  Stop();  // rank 2 has brought nothing
  EXPECT_THAT(Wholes(), ElementsAre(7));
  Start();
  ASSERT_TRUE(Join(true).ok());
  EXPECT_EQ(rank(0).joined->base_step(), 7u);
  for (int i = 0; i < 1200 && Parts().size() > 1; ++i) usleep(50'000);
  EXPECT_THAT(Parts(), ElementsAre(7));
  Stop();
  Start();  // the newest part is gone, and nothing takes that for damage
  EXPECT_TRUE(Join(true).ok());
}

// Two jobs by mistake: epochs and steps of both may be the same.
TEST_F(DividedStore, PartsOfAnotherMainStoreAreLeftAlone) {
  ASSERT_EQ(SaveAll(7), OkStatus());
  Stop();
  fs::rename(MainStore(), directory_ + "/first");
  Start();
  ASSERT_EQ(Join(false), OkStatus());
  const Status refused = SaveAll(7);
  EXPECT_FALSE(refused.ok());
  Status why = rank(0).store->Await({epoch(), 7}, Seconds(60));
  EXPECT_THAT(Message(why), HasSubstr("has parts of the checkpoints of another store"));
  Stop();
  EXPECT_THAT(Wholes(), ElementsAre());
  fs::remove_all(MainStore());
  fs::rename(directory_ + "/first", MainStore());
  Start();
  ASSERT_EQ(Join(true), OkStatus());
  EXPECT_EQ(rank(0).joined->base_step(), 7u);
  CheckAll(rank(0).joined->base_epoch(), 7, 1);
}

}  // namespace
}  // namespace ringwood
