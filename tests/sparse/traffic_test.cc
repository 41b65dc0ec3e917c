// Bytes on the NICs, counted: hosts, each with workers and a server, whole exchanges over the
// in-process network. What stays inside a host is not on its NIC.
#include <gtest/gtest.h>

#include <latch>

#include "absl/strings/str_format.h"
#include "sparse/assign.h"
#include "sparse/climb.h"
#include "sparse/reducer/reducer.h"
#include "tests/sparse/samples.h"
#include "transport/in_process.h"

namespace ringwood {
namespace {

constexpr uint64_t kElements = 16000000;
constexpr uint64_t kEntries = 16000;

// Passes everything on and counts what each node sends to each other; loop thread only.
class CountingTransport : public Transport {
 public:
  using Matrix = std::vector<std::vector<uint64_t>>;
  CountingTransport(std::unique_ptr<Transport> inner, int self, Matrix* sent)
      : inner_(std::move(inner)), self_(self), sent_(sent) {}

  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            SendDone done) override {
    (*sent_)[self_][peer] += payload.bytes.size();
    inner_->Send(peer, name, content, payload, std::move(done));
  }
  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, ReceiveDone done) override {
    inner_->Receive(peer, name, content, buffer, std::move(done));
  }
  void Withdraw(Lane lane, uint64_t round) override { inner_->Withdraw(lane, round); }
  void Close(const Status& reason) override { inner_->Close(reason); }
  TransportCounters Counters() const override { return inner_->Counters(); }

 private:
  const std::unique_ptr<Transport> inner_;
  const int self_;
  Matrix* const sent_;
};

// Indices spread evenly, other ones on every worker.
Entries Spread(int worker) {
  Random random(worker + 1);
  Entries entries;
  const uint64_t stride = kElements / kEntries;
  for (uint64_t j = 0; j < kEntries; ++j) {
    // One after the other: compilers differ in the order in which they evaluate arguments.
    const auto value = static_cast<float>(random.Unit() - 0.5);
    const auto index = static_cast<uint32_t>(j * stride + random.Below(stride));
    entries.push_back(index, value);
  }
  return entries;
}

struct Nic {
  uint64_t sent = 0, received = 0;
};

// The busiest NIC of one round. Worker and server w are on host w mod `hosts`.
Nic Busiest(int hosts, int servers, const std::string& merge, int workers_of_a_host = 1,
            bool hosts_known = true) {
  const int workers = hosts * workers_of_a_host;
  TreeShape job{workers, servers, 8};
  for (int w = 0; w < workers && hosts_known; ++w) job.hosts.push_back(w % hosts);
  for (int s = 0; s < servers && hosts_known; ++s) job.hosts.push_back(s % hosts);
  std::vector<SparseGroup> groups(1);
  groups[0].elements = kElements;
  groups[0].k = kEntries;
  groups[0].merge = merge;
  Assign(job, &groups);
  const int nodes = workers + servers;
  const auto host_of = [&](int node) { return (node < workers ? node : node - workers) % hosts; };
  CountingTransport::Matrix sent(nodes, std::vector<uint64_t>(nodes, 0));
  InProcessNetwork network;
  Loop loop("cluster");
  std::vector<std::unique_ptr<Fabric>> fabrics;
  std::vector<Peer> peers;
  for (int node = 0; node < nodes; ++node) {
    fabrics.push_back(network.MakeFabric(&loop));
    peers.push_back({node, absl::StrFormat("node %d", node), fabrics.back()->Address()});
  }
  std::vector<std::unique_ptr<Transport>> ends;
  std::vector<std::unique_ptr<Reducer>> reducers;
  std::latch answered(workers);
  EXPECT_TRUE(
      loop.Call(
              [&]() -> Status {
                for (int node = 0; node < nodes; ++node) {
                  RW_ASSIGN_OR_RETURN(auto end,
                                      fabrics[node]->Connect({1, 1, node}, peers, FabricLimits()));
                  ends.push_back(std::make_unique<CountingTransport>(std::move(end), node, &sent));
                }
                for (int node = workers; node < nodes; ++node) {
                  reducers.push_back(std::make_unique<Reducer>(
                      ends[node].get(), job, node, groups,
                      [](Status status) { ADD_FAILURE() << Message(status); }));
                  reducers.back()->Start(1);
                }
                for (int w = 0; w < workers; ++w) {
                  RW_ASSIGN_OR_RETURN(const Climb climb, Climb::Of(job, w, groups[0]));
                  climb.Start(ends[w].get(), 1, Spread(w), [&](StatusOr<Descent> descent) {
                    EXPECT_TRUE(descent.ok()) << Message(descent.status());
                    EXPECT_EQ(descent.ok() ? descent->result.size() : 0, kEntries);
                    answered.count_down();
                  });
                }
                return OkStatus();
              },
              Seconds(60))
          .ok());
  answered.wait();
  EXPECT_TRUE(loop.Call(
                      [&] {
                        reducers.clear();
                        for (auto& end : ends) end->Close(Aborted("the test is over"));
                        ends.clear();
                        fabrics.clear();
                        return OkStatus();
                      },
                      Seconds(60))
                  .ok());
  std::vector<Nic> nics(hosts);
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      if (host_of(from) == host_of(to)) continue;
      nics[host_of(from)].sent += sent[from][to];
      nics[host_of(to)].received += sent[from][to];
    }
  }
  Nic busiest;
  for (const Nic& nic : nics) {
    busiest.sent = std::max(busiest.sent, nic.sent);
    busiest.received = std::max(busiest.received, nic.received);
  }
  return busiest;
}

TEST(Traffic, ShardedOverAllHostsTheBusiestNicCarriesTheLowerBound) {
  for (int hosts : {2, 4, 20}) {
    // The histograms of "exact" cost each pair of servers some 2 KiB a round.
    for (const auto& [merge, limit] : {std::pair("gtopk", 1.05), std::pair("exact", 1.25)}) {
      const Nic nic = Busiest(hosts, hosts, merge);
      const double bound = 2.0 * kEntries * (hosts - 1) / hosts * 6;
      EXPECT_LE(nic.sent, limit * bound) << hosts << " hosts, " << merge;
      EXPECT_LE(nic.received, limit * bound) << hosts << " hosts, " << merge;
      EXPECT_GE(nic.received, 0.9 * bound);
    }
  }
}

// gTop-k: of what its four workers send a host passes on k entries, and gets the result once.
TEST(Traffic, AHostWithSeveralWorkersCarriesWhatOneWouldHave) {
  const double bound = 2.0 * kEntries * 3 / 4 * 6;
  const Nic nic = Busiest(4, 4, "gtopk", 4);
  EXPECT_LE(nic.sent, 1.05 * bound);
  EXPECT_LE(nic.received, 1.05 * bound);
  EXPECT_GE(Busiest(4, 4, "gtopk", 4, false).received, 3.9 * nic.received);
}

TEST(Traffic, AtTwentyHostsANicReceivesAnEighthOfWhatAGatherDoes) {
  const Nic gather = Busiest(20, 0, "gtopk");
  EXPECT_GE(gather.received, 19 * kEntries * 6);
  EXPECT_GE(gather.received, 8 * Busiest(20, 20, "gtopk").received);
}

}  // namespace
}  // namespace ringwood
