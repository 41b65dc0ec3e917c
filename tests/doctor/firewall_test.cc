#include "doctor/firewall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ClusterFacts TwoHosts(const std::string& network = "10.0.0.") {
  ClusterFacts facts;
  for (const auto& [name, address] :
       {std::pair{"h1", network + "1"}, std::pair{"h2", network + "2"}}) {
    HostFacts host;
    host.host = name;
    host.address = address;
    host.interface_name = "eth0";
    facts.hosts.push_back(host);
  }
  return facts;
}

constexpr char kGolden[] = R"(#!/usr/sbin/nft -f
# Ringwood: at eth0 only these hosts may connect to TCP ports 20000-20099.
# For every one of them. Where another table drops by default, accept the same there.
# Remove: nft delete table inet ringwood
table inet ringwood
delete table inet ringwood
table inet ringwood {
  set members {
    type ipv4_addr
    elements = {
      10.0.0.1,  # h1
      10.0.0.2,  # h2
    }
  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname != "eth0" accept
    ip saddr @members accept
    tcp dport 20000-20099 tcp flags & (fin | syn | rst | ack) == syn counter drop
  }
}
)";

TEST(Firewall, RulesAreThoseOfTheMembers) {
  const auto request = FirewallOf(TwoHosts(), {20000, 20099});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(NftRules(*request), kGolden);
}

TEST(Firewall, OfIpv6TheyNameItsAddresses) {
  const std::string rules = NftRules(*FirewallOf(TwoHosts("fd00::"), {20000, 20099}));
  EXPECT_THAT(rules, AllOf(HasSubstr("type ipv6_addr"), HasSubstr("fd00::2,  # h2"),
                           HasSubstr("ip6 saddr @members accept")));
  ClusterFacts mixed = TwoHosts();
  mixed.hosts[1].address = "fd00::2";
  EXPECT_THAT(Message(FirewallOf(mixed, {20000, 20099}).status()),
              HasSubstr("h1 is at 10.0.0.1 and host h2 at fd00::2"));
}

class NftTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, NftTest, ::testing::Values("10.0.0.", "fd00::"));

TEST_P(NftTest, AcceptsTheRules) {
  if (std::system("nft -c list ruleset >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "nft is not here, or may not be asked";
  }
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("ringwood-firewall-" + std::to_string(::getpid()) + ".nft");
  std::ofstream(file) << NftRules(*FirewallOf(TwoHosts(GetParam()), {20000, 20099}));
  EXPECT_EQ(std::system(("nft -c -f " + file.string()).c_str()), 0);
  std::filesystem::remove(file);
}

TEST(Firewall, WhatIsNotKnownIsRefusedByName) {
  EXPECT_THAT(Message(FirewallOf(TwoHosts(), {}).status()), HasSubstr("--port-range"));
  ClusterFacts lost = TwoHosts();
  lost.hosts[1].address = "";
  lost.hosts[1].error = "no answer";
  EXPECT_THAT(Message(FirewallOf(lost, {20000, 20099}).status()), HasSubstr("h2 is not known: no"));
  ClusterFacts other = TwoHosts();
  other.hosts[1].interface_name = "eth1";
  EXPECT_THAT(Message(FirewallOf(other, {20000, 20099}).status()), HasSubstr("eth1 on host h2"));
}

}  // namespace
}  // namespace ringwood
