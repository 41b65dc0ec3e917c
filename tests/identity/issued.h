// An authority of a test, and the certificates of its processes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>

#include "identity/authority.h"
#include "identity/credentials.h"

namespace ringwood {

class Issuer {
 public:
  explicit Issuer(std::string job = "job") : job_(std::move(job)) {
    char name[] = "/tmp/ringwood-issued-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    root_ = name;
    const int64_t now = std::time(nullptr);
    auto made = Authority::Make("test", {now - 10 * kDay, now + 10 * kDay});
    EXPECT_TRUE(made.ok()) << made.status();
    authority_ = std::make_unique<Authority>(*std::move(made));
  }
  ~Issuer() { std::filesystem::remove_all(root_); }

  // The folder of a new certificate, valid from yesterday on.
  std::string Folder(IdentityRole role, int slot, int64_t last_second) {
    return Folder({job_, role, slot}, last_second);
  }
  std::string Folder(const IdentityName& name, int64_t last_second) {
    const auto leaf = authority_->Issue(name, {std::time(nullptr) - kDay, last_second});
    EXPECT_TRUE(leaf.ok()) << leaf.status();
    const std::string folder = root_ + "/" + std::to_string(count_++);
    const Status written = WriteIdentity(folder, authority_->certificate(), *leaf);
    EXPECT_TRUE(written.ok()) << written;
    return folder;
  }
  std::string Folder(IdentityRole role, int slot) {
    return Folder(role, slot, std::time(nullptr) + kDay);
  }

  std::shared_ptr<const Credentials> For(IdentityRole role, int slot) {
    return Opened(Folder(role, slot), std::time(nullptr));
  }
  std::shared_ptr<const Credentials> For(const IdentityName& name) {
    return Opened(Folder(name, std::time(nullptr) + kDay), std::time(nullptr));
  }
  // Was valid until an hour ago, when its process began.
  std::shared_ptr<const Credentials> ExpiredFor(IdentityRole role, int slot) {
    const int64_t hour_ago = std::time(nullptr) - 3600;
    return Opened(Folder(role, slot, hour_ago), hour_ago - 1);
  }

 private:
  static constexpr int64_t kDay = 86'400;

  static std::shared_ptr<const Credentials> Opened(const std::string& folder, int64_t now) {
    auto credentials = Credentials::Open(folder, now);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return credentials.ok() ? *credentials : nullptr;
  }

  const std::string job_;
  std::string root_;
  std::unique_ptr<Authority> authority_;
  int count_ = 0;
};

}  // namespace ringwood
