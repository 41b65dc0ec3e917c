#include "proto/job_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/random.h"

namespace ringwood {
namespace {

constexpr size_t kMaxTokenBytes = 1024;  // a longer one is wrong
constexpr size_t kMaxJobNameBytes = 64;
constexpr char kWrong[] = "a wrong token";

struct NamedRole {
  CallerRole role;
  const char* name;
};
constexpr NamedRole kRoles[] = {
    {kRankRole, "rank"}, {kServerRole, "server"}, {kObserverRole, "observer"}};

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return hex;
}

std::string Mac(std::string_view key, std::string_view text) {
  std::string mac(SHA256_DIGEST_LENGTH, '\0');
  unsigned length = 0;
  RW_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                reinterpret_cast<unsigned char*>(mac.data()), &length) != nullptr);
  RW_CHECK(length == mac.size());
  return mac;
}

// Compares hashes, so that neither the length nor the first differing byte shows in the time taken.
bool Same(std::string_view a, std::string_view b) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> one, other;
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), one.data());
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), other.data());
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

// ROLE.EXPIRY.RANDOM.MAC without the job's name; empty: it is not of this form.
std::vector<std::string_view> PartsOf(std::string_view token) {
  token.remove_prefix(std::min(token.size(), token.find('/') + 1));  // npos + 1 is 0
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t dot = token.find('.');
    parts.push_back(token.substr(0, dot));
    if (dot == std::string_view::npos) break;
    token.remove_prefix(dot + 1);
  }
  if (parts.size() != 4) parts.clear();
  return parts;
}

unsigned RoleNamed(std::string_view name) {
  for (const NamedRole& role : kRoles) {
    if (name == role.name) return role.role;
  }
  return 0;
}

}  // namespace

std::string RoleNames(unsigned roles) {
  std::vector<std::string> names;
  for (const NamedRole& role : kRoles) {
    if ((roles & role.role) != 0) names.push_back(role.name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text.empty() ? "no role" : text;
}

StatusOr<CallerRole> ParseRole(const std::string& name) {
  const unsigned role = RoleNamed(name);
  if (role != 0) return static_cast<CallerRole>(role);
  return Invalid("the role '" + name + "' is none of rank, server and observer");
}

std::string UtcText(int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return "an unknown time";
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d:%02d UTC", parts.tm_year + 1900,
                         parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                         parts.tm_sec);
}

std::string IssueToken(const std::string& secret, CallerRole role, int64_t expires_unix_seconds,
                       uint64_t random) {
  const std::string_view job = JobOfToken(secret);
  std::string token = job.empty() ? "" : std::string(job) + "/";
  token += absl::StrFormat("%s.%d.%016x", RoleNames(role), expires_unix_seconds, random);
  return token + "." + Hex(Mac(secret, token));
}

StatusOr<TokenRights> CheckToken(const std::string& secret, std::string_view token,
                                 int64_t now_unix_seconds) {
  if (token.size() > kMaxTokenBytes) return Denied(kWrong);
  if (Same(token, secret)) return TokenRights();
  const std::vector<std::string_view> parts = PartsOf(token);
  if (parts.empty()) return Denied(kWrong);
  const std::string_view mac = parts[3];
  const std::string_view claimed = token.substr(0, token.size() - mac.size() - 1);
  if (!Same(Hex(Mac(secret, claimed)), mac)) return Denied(kWrong);
  TokenRights rights;
  rights.roles = RoleNamed(parts[0]);
  const std::string_view expiry = parts[1];
  const auto [stop, error] =
      std::from_chars(expiry.data(), expiry.data() + expiry.size(), rights.expires_unix_seconds);
  if (rights.roles == 0 || error != std::errc() || stop != expiry.data() + expiry.size()) {
    return Denied("a token of another version");
  }
  if (now_unix_seconds < rights.expires_unix_seconds) return rights;
  return Denied(absl::StrFormat("a token of the role %s that expired at %s",
                                RoleNames(rights.roles), UtcText(rights.expires_unix_seconds)));
}

unsigned ClaimedRoles(std::string_view token) {
  const std::vector<std::string_view> parts = PartsOf(token);
  const unsigned role = parts.empty() ? 0 : RoleNamed(parts[0]);
  return role == 0 ? kEveryRole : role;
}

Status CheckJobName(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kMaxJobNameBytes &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '-' || c == '_';
                    });
  if (good) return OkStatus();
  return Invalid("a job's name has 1 to 64 letters, digits, '-' and '_'");
}

std::string JobSecret(const std::string& deployment_secret, const std::string& job) {
  return job + "/" + Hex(DerivedKey(deployment_secret, "job " + job));
}

std::string_view JobOfToken(std::string_view token) {
  const size_t slash = token.find('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view name = token.substr(0, slash);
  return CheckJobName(name).ok() ? name : std::string_view();
}

std::string NewSecret() {
  std::string secret;
  for (int i = 0; i < 4; ++i) secret += absl::StrFormat("%016x", Unpredictable());
  return secret;
}

std::string DerivedKey(const std::string& secret, const std::string& purpose) {
  return Mac(secret, "ringwood " + purpose);
}

}  // namespace ringwood
