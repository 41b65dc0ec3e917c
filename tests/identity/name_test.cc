#include "identity/name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ringwood {
namespace {

using testing::HasSubstr;

constexpr IdentityRole kRank = IdentityRole::kRank, kServer = IdentityRole::kServer,
                       kObserver = IdentityRole::kObserver;

TEST(IdentityName, ReadsWhatItWrites) {
  std::mt19937 random(7);
  const std::string letters = "abcXYZ019._-";
  for (int i = 0; i < 1000; ++i) {
    IdentityName name;
    for (size_t bytes = 1 + random() % 64; name.job.size() < bytes;) {
      name.job += letters[random() % letters.size()];
    }
    name.role = std::array{kRank, kServer, kObserver}[random() % 3];
    name.slot = static_cast<int>(random() % 65537) - 1;
    const auto read = ParseIdentityName(ToUri(name));
    ASSERT_TRUE(read.ok()) << ToUri(name) << ": " << read.status();
    EXPECT_EQ(*read, name);
  }
}

TEST(IdentityName, HasOneSpelling) {
  for (const char* uri : {"",
                          "ringwood:",
                          "ringwood://",
                          "ringwood://j",
                          "ringwood://j/rank",
                          "ringwood://j/rank/",
                          "ringwood://j/rank/01",
                          "ringwood://j/rank/+1",
                          "ringwood://j/rank/-1",
                          "ringwood://j/rank/1/2",
                          "ringwood://j/rank/65536",
                          "ringwood://j/rank/99999999999",
                          "ringwood://j/Rank/1",
                          "ringwood://j/worker/1",
                          "ringwood:///rank/1",
                          "RINGWOOD://j/rank/1",
                          "ringwood://j k/rank/1",
                          "ringwood://j,URI:x/rank/1",
                          "ringwood://j\n/rank/1",
                          "ringwood://any/rank/1",
                          "ringwood://any/observer/any",
                          "https://j/rank/1"}) {
    EXPECT_FALSE(ParseIdentityName(uri).ok()) << uri;
  }
  EXPECT_TRUE(ParseIdentityName("ringwood://any/server/0").ok());
  EXPECT_FALSE(ParseIdentityName("ringwood://" + std::string(65, 'j') + "/rank/1").ok());
}

TEST(IdentityName, ErrorsAreSafeToPrint) {
  const auto name = ParseIdentityName("ringwood://a\x1b[2J/rank/1");
  EXPECT_THAT(Message(name.status()), Not(HasSubstr("\x1b")));
}

TEST(IdentityName, MembersOfAJobMeetAndOthersDoNot) {
  const IdentityName rank{"a", kRank, 0}, other{"b", kRank, 0}, server{"a", kServer, 0},
      standing{kAnyJob, kServer, 0}, observer{"a", kObserver, 0};
  for (const auto& [self, peer, may] :
       std::initializer_list<std::tuple<IdentityName, IdentityName, bool>>{
           {rank, rank, true},
           {rank, server, true},
           {server, server, true},
           {rank, standing, true},
           {other, standing, true},
           {observer, server, true},
           {rank, other, false},
           {server, other, false},
           {observer, rank, false},
           {observer, standing, true},
           {observer, observer, false}}) {
    EXPECT_EQ(MayMeet(self, peer).ok(), may) << ToUri(self) << " " << ToUri(peer);
    EXPECT_EQ(MayMeet(peer, self).ok(), may) << ToUri(peer) << " " << ToUri(self);
  }
  EXPECT_THAT(Message(MayMeet(rank, other)), HasSubstr("another job"));
}

TEST(IdentityName, OneClaimsItsOwnRoleAndSlot) {
  const IdentityName rank{"a", kRank, 2}, every{"a", kRank, kAnySlot};
  EXPECT_TRUE(MayClaim(rank, kRank, 2).ok());
  EXPECT_TRUE(MayClaim(every, kRank, 7).ok());
  EXPECT_FALSE(MayClaim(every, kServer, 7).ok());
  EXPECT_FALSE(MayClaim(rank, kServer, 2).ok());
  const std::string why = Message(MayClaim(rank, kRank, 3));
  EXPECT_THAT(why, HasSubstr("ringwood://a/rank/2 is not that of rank 3"));
  EXPECT_THAT(why, HasSubstr("RINGWOOD_IDENTITY"));
}

TEST(Validity, CountsFromItsFirstToItsLastSecond) {
  const Validity validity{1000, 2000};
  EXPECT_TRUE(CheckValidity("c", validity, 1000).ok());
  EXPECT_TRUE(CheckValidity("c", validity, 2000).ok());
  EXPECT_THAT(Message(CheckValidity("c", validity, 999)), HasSubstr("not yet valid"));
  EXPECT_THAT(Message(CheckValidity("c", validity, 2001)), HasSubstr("expired 1 s ago"));
  EXPECT_THAT(Message(CheckValidity("c", validity, 2000 + 3 * 86400)), HasSubstr("3 days"));
}

TEST(Validity, IsRenewedWithAThirdLeft) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    const int64_t from = static_cast<int64_t>(random() % 4'000'000'000);
    const Validity validity{from, from + 1 + static_cast<int64_t>(random() % 1'000'000)};
    const int64_t renewal = RenewalTime(validity);
    EXPECT_GE(renewal, validity.from);
    EXPECT_LE(renewal, validity.until);
    EXPECT_NEAR(static_cast<double>(validity.until - renewal),
                static_cast<double>(validity.until - validity.from) / 3, 1);
  }
}

}  // namespace
}  // namespace ringwood
