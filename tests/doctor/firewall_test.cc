#include "doctor/firewall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ringwood {
namespace {

using ::testing::HasSubstr;

ClusterFacts TwoHosts() {
  ClusterFacts facts;
  for (const auto& [name, address] : {std::pair{"h1", "10.0.0.1"}, std::pair{"h2", "10.0.0.2"}}) {
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

TEST(Firewall, NftAcceptsThem) {
  if (std::system("nft -c list ruleset >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "nft is not here, or may not be asked";
  }
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("ringwood-firewall-" + std::to_string(::getpid()) + ".nft");
  std::ofstream(file) << kGolden;
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
