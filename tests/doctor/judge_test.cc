// Every finding from facts that cause it, and none from facts that are good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "doctor/finding.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kGigabit = 117e6;  // bytes a second

HostFacts GoodHost(const std::string& name, int number) {
  HostFacts host;
  host.host = name;
  host.slots = 2;
  host.build = {{"ringwood", "1.2.0"}, {"commit", "abc"}, {"UCX", "1.13.1"}, {"gRPC", "1.51.1"}};
  host.cores = 8;
  host.interface_name = "eth0";
  host.address = "10.0.0." + std::to_string(number);
  host.interfaces = {{"eth0", host.address, 24, true, false, 1500, 1e9}};
  host.transport = "ucx";
  host.descriptors_soft = 1024;
  host.descriptors_hard = 1 << 20;
  host.socket_receive_bytes = 6e6;
  return host;
}

LinkFacts GoodLink(const std::string& from, const std::string& to) {
  LinkFacts link;
  link.from = from;
  link.to = to;
  link.interface_name = "eth0";
  link.latency_seconds = 1e-4;
  link.sent_rate = link.received_rate = kGigabit;
  link.clock_error = 1e-4;
  return link;
}

ClusterFacts GoodCluster(int hosts) {
  ClusterFacts facts;
  for (int i = 0; i < hosts; ++i) facts.hosts.push_back(GoodHost("h" + std::to_string(i), i + 1));
  for (int i = 0; i < hosts; ++i) {
    for (int j = i + 1; j < hosts; ++j) {
      facts.links.push_back(GoodLink(facts.hosts[i].host, facts.hosts[j].host));
    }
  }
  facts.hosts[0].disk = {"/store", "", "ext4", 1e12, 1e9, 1e-3};
  facts.links_measured = true;
  return facts;
}

// Of all links of one host: what it sends, or what it receives.
void SlowDown(ClusterFacts* facts, const std::string& host, bool sends, double rate) {
  for (LinkFacts& link : facts->links) {
    if (link.from == host) (sends ? link.sent_rate : link.received_rate) = rate;
    if (link.to == host) (sends ? link.received_rate : link.sent_rate) = rate;
  }
}

LinkFacts* Link(ClusterFacts* facts, const std::string& from, const std::string& to) {
  for (LinkFacts& link : facts->links) {
    if (link.from == from && link.to == to) return &link;
  }
  return nullptr;
}

struct Case {
  const char* name;
  std::function<void(ClusterFacts*)> harm;  // four good hosts
  Severity severity;
  const char* where;
  const char* what;    // part of it
  const char* remedy;  // part of it
  int code;            // exit code
};

std::vector<Case> HostCases() {
  using F = ClusterFacts*;
  return {
      {"unreached", [](F f) { f->hosts[2].error = "the connection to host h2 ended"; },
       Severity::kError, "h2", "the connection to host h2 ended", "--rsh", 75},
      {"build", [](F f) { f->hosts[3].build["ringwood"] = "1.1.0"; }, Severity::kError, "h3",
       "ringwood is 1.1.0 of commit abc, on the others 1.2.0 of commit abc", "same package", 78},
      {"commit", [](F f) { f->hosts[0].build["commit"] = "def"; }, Severity::kError, "h0",
       "1.2.0 of commit def", "same package", 78},
      {"ucx", [](F f) { f->hosts[1].build["UCX"] = "1.17.0"; }, Severity::kWarning, "h1",
       "the version of UCX is 1.17.0, on the others 1.13.1", "wheel", 0},
      {"interface",
       [](F f) {
         f->hosts[1].interface_error = "no network interface fits \"eth9\"";
         f->hosts[1].address = "";
       },
       Severity::kError, "h1", "eth9", "--network-interface", 78},
      {"loopback",
       [](F f) {
         f->hosts[1].interface_name = "lo";
         f->hosts[1].interfaces = {{"lo", "127.0.0.1", 8, true, true, 1500, 0}};
         for (LinkFacts& link : f->links) link.interface_name = "";
       },
       Severity::kError, "h1", "lo, which joins no hosts", "--network-interface", 78},
      {"nic", [](F f) { f->hosts[2].interfaces[0].bits_per_second = 1e8; }, Severity::kWarning,
       "h2", "eth0 runs at 100 Mbit/s", "ethtool eth0", 0},
      {"mtu", [](F f) { f->hosts[2].interfaces[0].mtu = 9000; }, Severity::kWarning, "h2",
       "is 9000, on the others 1500", "mtu", 0},
      {"address", [](F f) { f->hosts[2].address = f->hosts[1].address; }, Severity::kError,
       "h1, h2", "10.0.0.2 is that of several hosts", "once", 78},
      {"family", [](F f) { f->hosts[2].address = "fd00::3"; }, Severity::kError, "h2",
       "is of IPv6, on the others of IPv4", "on none of them", 78},
      {"ucx does not start", [](F f) { f->hosts[0].transport_error = "open UCX: no device"; },
       Severity::kError, "h0", "the data plane (ucx) does not start: open UCX", "/sys", 78},
      {"ptrace", [](F f) { f->hosts[1].ptrace_scope = 1; }, Severity::kWarning, "h1",
       "ptrace_scope is 1", "sysctl", 0},
      {"another job", [](F f) { f->hosts[1].ranks_running = 4; }, Severity::kWarning, "h1",
       "4 ranks of a job train here", "--no-pairs", 0},
      {"another job has the ports",
       [](F f) {
         f->hosts[1].ranks_running = 4;
         f->hosts[1].ports = {"20000-20003", "", 4, 0};
       },
       Severity::kError, "h1", "of which 0 are free", "let the job end", 75},
      {"cores", [](F f) { f->hosts[1].cores = 1; }, Severity::kWarning, "h1",
       "2 ranks share 1 core", "slots", 0},
      {"nccl",
       [](F f) {
         f->hosts[1].gpu = {2, "", false, "libnccl.so.2: not found"};
       },
       Severity::kError, "h1", "2 GPUs cannot be used by several ranks: libnccl", "NCCL 2.14", 78},
      {"few gpus",
       [](F f) {
         f->hosts[1].gpu = {1, "", true, ""};
       },
       Severity::kWarning, "h1", "2 ranks share 1 GPU", "as many slots", 0},
      {"descriptors",
       [](F f) { f->hosts[1].descriptors_soft = f->hosts[1].descriptors_hard = 128; },
       Severity::kError, "h1", "descriptors", "nofile", 78},
      {"descriptors by grpc",
       [](F f) {
         f->hosts[1].transport = "grpc";
         f->hosts[1].descriptors_soft = f->hosts[1].descriptors_hard = 164;
       },
       Severity::kWarning, "h1", "of 8 possible connections 2 fit", "ulimit", 0},
      {"port range",
       [](F f) {
         f->hosts[1].ports = {"7-x", "\"7-x\" is no range"};
       },
       Severity::kError, "h1", "7-x", "FIRST-LAST", 78},
      {"few ports",
       [](F f) {
         f->hosts[1].ports = {"20000-20002", "", 3, 3};
       },
       Severity::kError, "h1", "has 3 ports, of which 3 are free; 2 ranks of this host take 4",
       "wider", 78},
      {"few ports of the first host",
       [](F f) {
         f->hosts[0].ports = {"20000-20005", "", 6, 6};
       },
       Severity::kError, "h0", "2 ranks of this host take 8", "wider", 78},
      {"busy ports",
       [](F f) {
         f->hosts[1].ports = {"20000-20099", "", 100, 3};
       },
       Severity::kError, "h1", "of which 3 are free", "ss -ltnp", 75},
      {"outgoing ports",
       [](F f) { f->hosts[1].ports = {"40000-40099", "", 100, 100, 32768, 60999, 100}; },
       Severity::kWarning, "h1", "outgoing connections (32768-60999)",
       "ip_local_reserved_ports=40000-40099", 0},
      {"store", [](F f) { f->hosts[0].disk.error = "cannot write into /store"; }, Severity::kError,
       "h0", "store /store: cannot write", "--store", 78},
      {"memory", [](F f) { f->hosts[0].disk.file_system = "tmpfs"; }, Severity::kWarning, "h0",
       "gone with the machine", "on a disk", 0},
      {"space", [](F f) { f->hosts[0].disk.free_bytes = 1e9; }, Severity::kWarning, "h0",
       "954 MiB are free", "--keep-checkpoints", 0},
      {"slow disk", [](F f) { f->hosts[0].disk.write_rate = 8e6; }, Severity::kWarning, "h0",
       "8 MB a second", "faster disk", 0},
      {"slow sync", [](F f) { f->hosts[0].disk.sync_seconds = 0.05; }, Severity::kNote, "h0",
       "50 ms until it is on the disk", "--update-log", 0},
  };
}

std::vector<Case> LinkCases() {
  using F = ClusterFacts*;
  return {
      {"slow sender", [](F f) { SlowDown(f, "h2", true, 11e6); }, Severity::kWarning, "h2",
       "it sends at 0.088 Gbit/s at most, other hosts at 0.936", "eth0", 0},
      {"slow receiver", [](F f) { SlowDown(f, "h2", false, 11e6); }, Severity::kWarning, "h2",
       "it receives at 0.088 Gbit/s", "eth0", 0},
      {"slow pair",
       [](F f) { Link(f, "h1", "h3")->sent_rate = Link(f, "h1", "h3")->received_rate = 2e7; },
       Severity::kWarning, "h1 - h3", "0.16 Gbit/s between them", "uplinks", 0},
      {"one way",
       [](F f) {
         for (LinkFacts& link : f->links) link.sent_rate = 2 * kGigabit;
       },
       Severity::kWarning, "h0 - h1", "one way", "half duplex", 0},
      {"below nominal",
       [](F f) {
         for (LinkFacts& link : f->links) link.sent_rate = link.received_rate = 5e7;
       },
       Severity::kNote, "h0 - h1", "0.4 Gbit/s of the interfaces' 1 Gbit/s", "MTU", 0},
      {"far",
       [](F f) {
         for (const char* other : {"h0", "h1", "h2"}) {
           Link(f, other, "h3")->latency_seconds = 0.02;
         }
       },
       Severity::kWarning, "h3", "20 ms to any other host", "longer way", 0},
      {"loss", [](F f) { Link(f, "h0", "h1")->lost_share = 0.03; }, Severity::kWarning, "h0 - h1",
       "3.0 % of the segments again", "drops", 0},
      {"clock", [](F f) { Link(f, "h0", "h1")->clock_offset = -7; }, Severity::kWarning, "h0 - h1",
       "the clock of h1 is 7 s behind that of h0", "chrony", 0},
      {"route", [](F f) { Link(f, "h0", "h1")->interface_name = "wlan0"; }, Severity::kWarning,
       "h0 - h1", "sends to h1 through wlan0, the job listens on eth0", "route", 0},
      {"window",
       [](F f) {
         for (LinkFacts& link : f->links) link.latency_seconds = 0.05;
       },
       Severity::kWarning, "h0 - h1", "into a socket's buffer", "tcp_rmem", 0},
      {"closed port", [](F f) { Link(f, "h0", "h1")->error = "h0 cannot connect to h1: no route"; },
       Severity::kError, "h0 - h1", "h0 cannot connect to h1", "--firewall", 78},
      {"measurement",
       [](F f) {
         Link(f, "h0", "h1")->error = "the measurement ended";
         Link(f, "h0", "h1")->busy = true;
       },
       Severity::kError, "h0 - h1", "the measurement ended", "try again", 75},
      {"shut off",
       [](F f) {
         for (LinkFacts& link : f->links) {
           if (link.to == "h3") link.error = "no answer from h3";
         }
       },
       Severity::kError, "h3", "no other host can talk to it: no answer from h3", "--firewall", 78},
  };
}

class JudgeCase : public ::testing::TestWithParam<Case> {};

TEST_P(JudgeCase, IsFoundAndNamedWithItsRemedy) {
  ClusterFacts facts = GoodCluster(4);
  GetParam().harm(&facts);
  const std::vector<Finding> findings = Judge(facts);
  bool found = false;
  for (const Finding& finding : findings) {
    found |= finding.severity == GetParam().severity && finding.where == GetParam().where &&
             finding.what.find(GetParam().what) != std::string::npos &&
             finding.remedy.find(GetParam().remedy) != std::string::npos;
  }
  std::string all;
  for (const Finding& f : findings) {
    all += std::string(NameOf(f.severity)) + " | " + f.where + " | " + f.what + " | " + f.remedy +
           "\n";
  }
  EXPECT_TRUE(found) << all;
  EXPECT_EQ(ExitCodeOf(findings), GetParam().code) << all;
}

std::string NameOfCase(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Hosts, JudgeCase, ::testing::ValuesIn(HostCases()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(Links, JudgeCase, ::testing::ValuesIn(LinkCases()), NameOfCase);

TEST(Judge, GoodHostsHaveNoFindings) {
  for (int hosts : {1, 2, 3, 4, 9}) EXPECT_THAT(Judge(GoodCluster(hosts)), IsEmpty()) << hosts;
}

TEST(Judge, ErrorsComeFirstAndDecideTheExitCode) {
  ClusterFacts facts = GoodCluster(3);
  facts.hosts[0].disk.write_rate = 1e6;
  facts.hosts[2].error = "gone";
  const std::vector<Finding> findings = Judge(facts);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].where, "h2");
  EXPECT_EQ(ExitCodeOf(findings), 75);  // it may be back
  facts.hosts[1].transport_error = "no device";
  EXPECT_EQ(ExitCodeOf(Judge(facts)), 78);  // that will not pass
}

TEST(Judge, TwoSlowHostsOfFourAreNamedAndNoOther) {
  ClusterFacts facts = GoodCluster(4);
  for (const char* slow : {"h1", "h3"}) SlowDown(&facts, slow, true, 11e6);
  std::vector<std::string> named;
  for (const Finding& finding : Judge(facts)) named.push_back(finding.where);
  EXPECT_THAT(named, ::testing::ElementsAre("h1", "h3"));
}

TEST(Judge, WhatDiffersByAFewPercentIsNoFinding) {
  ClusterFacts facts = GoodCluster(5);
  for (size_t i = 0; i < facts.links.size(); ++i) facts.links[i].sent_rate *= 1 - 0.02 * (i % 7);
  EXPECT_THAT(Judge(facts), IsEmpty());
}

TEST(Judge, OfTwoHostsNeitherIsTheSlowOne) {
  ClusterFacts facts = GoodCluster(2);
  facts.links[0].sent_rate = 11e6;
  const std::vector<Finding> findings = Judge(facts);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].where, "h0 - h1");
  EXPECT_THAT(findings[0].what, HasSubstr("one way"));
}

}  // namespace
}  // namespace ringwood
