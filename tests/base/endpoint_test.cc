#include "base/net/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "base/net/socket_address.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Endpoint, IsAHostAndAPort) {
  const struct {
    const char* text;
    const char* host;
    int port;
  } rows[] = {{"127.0.0.1:41", "127.0.0.1", 41},
              {"h1:65535", "h1", 65535},
              {":0", "", 0},
              {"[fd00::1]:7070", "fd00::1", 7070},
              {"[::]:0", "::", 0}};
  for (const auto& row : rows) {
    const auto endpoint = ParseEndpoint(row.text);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    EXPECT_EQ(endpoint->host, row.host);
    EXPECT_EQ(endpoint->port, row.port);
    EXPECT_EQ(ToString(*endpoint), row.text);
    EXPECT_EQ(HostOf(row.text), row.host);
  }
}

TEST(Endpoint, AnythingElseIsRefused) {
  for (const std::string text : {"", "h", "h:", "h:x", "h:-1", "h:65536", "h:1x", "[::1]",
                                 "[::1]:", "[]:1", "[:1", "a]:1", "[[::1]]:1", "a:b:1"}) {
    const Status status = ParseEndpoint(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(status), HasSubstr("is not HOST:PORT"));
    EXPECT_THAT(Message(status), Not(HasSubstr("brackets"))) << text;
  }
}

TEST(Endpoint, AnIpv6AddressWithoutBracketsIsToldToHaveThem) {
  for (const std::string text : {"fd00::1", "fd00::1:7070", "::1"}) {
    EXPECT_THAT(Message(ParseEndpoint(text).status()), HasSubstr("stands in brackets")) << text;
    EXPECT_EQ(HostOf(text), text) << "it has no port";
  }
}

TEST(Endpoint, OfSeveralTheOneThatIsWrongIsNamed) {
  EXPECT_TRUE(CheckEndpoints("h1:7070").ok());
  EXPECT_TRUE(CheckEndpoints("127.0.0.1:7070,[::1]:7071,h3:7072").ok());
  EXPECT_THAT(Message(CheckEndpoints("h1:7070,h2")), HasSubstr("\"h2\" is not"));
}

TEST(Endpoint, LoopbackIsDecidedByTheAddressAndNotByTheLookOfAName) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1", "0:0::1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "h1", "10.0.0.1", "127.example", "127.0.0.1.example", "fd00::1",
                           "0.0.0.0", "::", "[::1]"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(SocketAddress, SaysWhatWasPutIn) {
  const struct {
    const char* ip;
    int family;
    bool any, loopback, link_local;
  } rows[] = {
      {"10.0.0.1", AF_INET, false, false, false}, {"127.0.0.1", AF_INET, false, true, false},
      {"0.0.0.0", AF_INET, true, false, false},   {"fd00::1", AF_INET6, false, false, false},
      {"::1", AF_INET6, false, true, false},      {"::", AF_INET6, true, false, false},
      {"fe80::1", AF_INET6, false, false, true}};
  for (const auto& row : rows) {
    const auto address = SocketAddress::Parse(row.ip, 7070);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ip(), row.ip);
    EXPECT_EQ(address->port(), 7070);
    EXPECT_EQ(address->family(), row.family) << row.ip;
    EXPECT_EQ(address->is_any(), row.any) << row.ip;
    EXPECT_EQ(address->is_loopback(), row.loopback) << row.ip;
    EXPECT_EQ(address->is_link_local(), row.link_local) << row.ip;
    EXPECT_EQ(SocketAddress::Of(address->name()).ip(), row.ip);
  }
  EXPECT_EQ(SocketAddress::Parse("FD00:0::0001", 0)->ip(), "fd00::1") << "one way to write it";
  EXPECT_EQ(SocketAddress::Parse("255.255.240.0", 0)->prefix(), 20);
  EXPECT_EQ(SocketAddress::Parse("ffff:ffff::", 0)->prefix(), 32);
  for (const char* text : {"", "h1", "1.2.3", "[::1]", "fe80::1%lo", "1.2.3.4:5"}) {
    EXPECT_FALSE(SocketAddress::Parse(text, 0).ok()) << text;
  }
}

TEST(SocketAddress, IsReadFromTheDigitsOfTheKernelsTables) {
  EXPECT_EQ(SocketAddress::ParseDigits("fd790000000000000000000000000001")->ip(), "fd79::1");
  EXPECT_EQ(SocketAddress::ParseDigits(std::string(32, '0'))->ip(), "::");
  for (const char* digits : {"", "fd79", "fd79000000000000000000000000000", "eth0",
                             "fd7900000000000000000000000000010000"}) {
    EXPECT_FALSE(SocketAddress::ParseDigits(digits).ok()) << digits;
  }
}

TEST(SocketAddress, OfWhatIsNoSocketHasNoPort) {
  EXPECT_EQ(SocketAddress::OfSocket(-1).port(), 0);
  EXPECT_EQ(SocketAddress::OfSocket(STDIN_FILENO).ip(), "");
}

class BindTcpTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, BindTcpTest, ::testing::Values("127.0.0.1", "::1"));

TEST_P(BindTcpTest, TakesAPortOnce) {
  const int first = BindTcp(*SocketAddress::Parse(GetParam(), 0), false);
  if (first < 0 && errno == EADDRNOTAVAIL) GTEST_SKIP() << "this machine has no " << GetParam();
  ASSERT_GE(first, 0) << errno;
  const SocketAddress taken = SocketAddress::OfSocket(first);
  EXPECT_EQ(taken.ip(), GetParam());
  EXPECT_GT(taken.port(), 0);
  for (const bool reuse : {false, true}) {
    EXPECT_EQ(BindTcp(taken, reuse), -1);
    EXPECT_EQ(errno, EADDRINUSE);
  }
  close(first);
}

TEST_P(BindTcpTest, TakesThePortOfOneWhoseConnectionsAreStillEnding) {
  const int first = BindTcp(*SocketAddress::Parse(GetParam(), 0), true);
  if (first < 0 && errno == EADDRNOTAVAIL) GTEST_SKIP() << "this machine has no " << GetParam();
  ASSERT_EQ(ListenTcp(first, 1), 0) << errno;
  const SocketAddress taken = SocketAddress::OfSocket(first);
  const int client = socket(taken.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(client, taken.name(), taken.size()), 0) << errno;
  close(accept(first, nullptr, nullptr));  // who closes first has it ending for a minute
  close(client);
  close(first);
  EXPECT_EQ(BindTcp(taken, false), -1);
  const int second = BindTcp(taken, true);
  EXPECT_GE(second, 0) << errno;
  close(second);
}

}  // namespace
}  // namespace ringwood
