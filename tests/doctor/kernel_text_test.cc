#include "doctor/kernel_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ParseRoutes, ReadsWhatIsUp) {
  const std::string text =
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
      "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
      "eth2\t0000000B\t00000000\t0000\t0\t0\t0\t000000FF\t0\t0\t0\n"
      "broken\n";
  EXPECT_THAT(ParseRoutes(text), ElementsAre(RouteFacts{"default", "192.168.2.1", "eth0"},
                                             RouteFacts{"10.0.0.0/24", "", "eth1"}));
  EXPECT_THAT(ParseRoutes(""), IsEmpty());
}

TEST(ParseRoutes, OfIpv6TheKernelsOwnAreLeftOut) {
  const std::string none(32, '0');
  const auto line = [&none](const std::string& to, const std::string& gateway,
                            const std::string& flags) {
    return to + " " + none + " 00 " + gateway + " 00000100 00000001 00000000 " + flags +
           "     eth0\n";
  };
  const std::string gateway = "fd000000000000000000000000000001";
  const std::string text =
      line("fd790000000000000000000000000000 40", none, "00000001") +
      line("fe800000000000000000000000000000 40", none, "00000001") +     // link-local
      line("fd790000000000000000000000000001 80", none, "80200001") +     // to this host
      line(none + " 00", none, "00200200") +                              // refused
      line("ff000000000000000000000000000000 08", none, "00000001") +     // multicast
      line("fd990000000000000000000000000000 40", gateway, "00000002") +  // not up
      line(none + " 00", gateway, "00000003") + "broken\n";
  EXPECT_THAT(ParseRoutes6(text), ElementsAre(RouteFacts{"fd79::/64", "", "eth0"},
                                              RouteFacts{"default", "fd00::1", "eth0"}));
  EXPECT_THAT(ParseRoutes6(""), IsEmpty());
}

TEST(OutgoingPorts, CountsWhatTheKernelMayGiveAway) {
  const std::string outgoing = "32768\t60999\n";
  EXPECT_EQ(OutgoingPorts({20000, 20099}, outgoing, "").unreserved, 0);
  EXPECT_EQ(OutgoingPorts({32700, 32799}, outgoing, "").unreserved, 32);
  EXPECT_EQ(OutgoingPorts({40000, 40099}, outgoing, "8080,40000-40089\n").unreserved, 10);
  EXPECT_EQ(OutgoingPorts({40000, 40099}, outgoing, "40000-40099\n").unreserved, 0);
  EXPECT_EQ(OutgoingPorts({40000, 40099}, "", "").unreserved, 0);
  EXPECT_EQ(OutgoingPorts({}, outgoing, ""), PortFacts());
}

TEST(ExpandNodeList, NamesWhatSlurmNames) {
  EXPECT_THAT(*ExpandNodeList("gpu[01-03,7],login", 99),
              ElementsAre("gpu01", "gpu02", "gpu03", "gpu7", "login"));
  EXPECT_THAT(*ExpandNodeList("n[8-11]-ib", 99), ElementsAre("n8-ib", "n9-ib", "n10-ib", "n11-ib"));
  EXPECT_THAT(*ExpandNodeList("one", 1), ElementsAre("one"));
  for (const char* wrong :
       {"", "n[1-", "n[3-1]", "n[x]", "n[1]]", "n]", "n[1][2]", "n[0-9]", "n[1-99999999999]"}) {
    EXPECT_FALSE(ExpandNodeList(wrong, 5).ok()) << wrong;
  }
}

}  // namespace
}  // namespace ringwood
