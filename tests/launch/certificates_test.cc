#include "launch/keys/certificates.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <map>

#include "identity/identity.h"
#include "launch/keys/key_folder.h"

namespace ringwood {
namespace {

constexpr int64_t kYear = 365 * 86'400;

struct Launcher {
  const int64_t start = std::time(nullptr);
  const Authority authority = *Authority::Make("test", {start - kYear, start + kYear});
  Certificates certificates{std::make_shared<const Authority>(authority), "job"};

  Leaf Issue(int member, int rank) {
    const auto leaf = certificates.Issue(member, IdentityRole::kRank, rank, start);
    EXPECT_TRUE(leaf.ok()) << leaf.status();
    return *leaf;
  }
};

TEST(Certificates, NameTheMember) {
  Launcher launcher;
  const Leaf leaf = launcher.Issue(4, 3);
  EXPECT_EQ(*NameInCertificate("leaf", leaf.certificate),
            (IdentityName{"job", IdentityRole::kRank, 3}));
}

TEST(Certificates, AreRenewedInTimeForAsLongAsTheJobRuns) {
  Launcher launcher;
  std::map<int, Leaf> leaves = {{0, launcher.Issue(0, 0)}, {1, launcher.Issue(1, 1)}};
  const std::string first = leaves[0].certificate;
  int renewals = 0;
  for (int64_t now = launcher.start; now < launcher.start + 30 * 86'400; now += 600) {
    launcher.certificates.Renew(now, [&](int member, const std::string& certificate) {
      leaves[member].certificate = certificate;
      ++renewals;
    });
    for (const auto& [member, leaf] : leaves) {
      const Status good =
          CheckIssued("leaf", leaf.certificate, "authority", launcher.authority.certificate(), now);
      ASSERT_TRUE(good.ok()) << good;
    }
  }
  EXPECT_GE(renewals, 2 * 30);
  EXPECT_LE(renewals, 2 * 60);
  EXPECT_NE(leaves[0].certificate, first);
}

TEST(Certificates, AreNotIssuedWithoutAnAuthority) {
  Certificates none(nullptr, "job");
  EXPECT_FALSE(none.on());
  none.Renew(kYear, [](int, const std::string&) { ADD_FAILURE(); });
}

TEST(KeyFolder, IsTheUsersAloneAndGoes) {
  Launcher launcher;
  const Leaf leaf = launcher.Issue(0, 0);
  std::string folder;
  {
    auto keys = KeyFolder::Make({{"XDG_RUNTIME_DIR", "/nonexistent"}});
    ASSERT_TRUE(keys.ok()) << keys.status();
    auto written = keys->Write(7, launcher.authority.certificate(), leaf);
    ASSERT_TRUE(written.ok()) << written.status();
    folder = *written;
    EXPECT_TRUE(ReadIdentity(folder, launcher.start).ok());
    struct stat about {};
    ASSERT_EQ(stat(std::filesystem::path(folder).parent_path().c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0700u);
    const auto renewed =
        launcher.authority.Renew({"job", IdentityRole::kRank, 0}, leaf.key,
                                 {launcher.start - 60, launcher.start + kYear / 2});
    ASSERT_TRUE(keys->Replace(7, *renewed).ok());
    EXPECT_EQ(ReadIdentity(folder, launcher.start)->validity.until, launcher.start + kYear / 2);
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace ringwood
