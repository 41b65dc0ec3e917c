// What a job's tokens are: who may call, as which role, and until when. Pure.
//
// A job has one secret. The secret itself is a token with every right. A token that was made from
// it is "ROLE.EXPIRY.RANDOM.MAC", where MAC is HMAC-SHA256 with the secret as key of all that
// stands before its dot: who checks it needs the secret and keeps no list. It cannot be changed,
// and the secret cannot be had from it.
//
// Where one deployment of servers has many jobs, each has a secret "NAME/MAC" of its own, made from
// the deployment's; tokens made from that begin with "NAME/" too, so that every token names its
// job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringwood {

// Bits, so that a call can be open to several of them.
enum CallerRole : unsigned {
  kRankRole = 1,      // takes part as a rank
  kServerRole = 2,    // takes part as a reducer
  kObserverRole = 4,  // reads status, metrics and weights, changes nothing
};
inline constexpr unsigned kEveryRole = kRankRole | kServerRole | kObserverRole;

struct TokenRights {
  unsigned roles = kEveryRole;
  int64_t expires_unix_seconds = 0;  // 0: never
};

// "rank or server".
std::string RoleNames(unsigned roles);
StatusOr<CallerRole> ParseRole(const std::string& name);  // "rank", "server", "observer"

// "2026-03-01 12:00:00 UTC".
std::string UtcText(int64_t unix_seconds);

// `random` tells tokens of one role and second apart.
std::string IssueToken(const std::string& secret, CallerRole role, int64_t expires_unix_seconds,
                       uint64_t random);

// What the bearer of `token` may do. Denied: "a wrong token", or which role's it was and when it
// expired; nothing of the token or of the secret. The time it takes tells nothing about the secret.
StatusOr<TokenRights> CheckToken(const std::string& secret, std::string_view token,
                                 int64_t now_unix_seconds);

// The roles that a token's text claims; a secret claims all. For one that CheckToken has passed.
unsigned ClaimedRoles(std::string_view token);

// A name of at most 64 letters, digits, '-' and '_'.
Status CheckJobName(std::string_view name);

// "NAME/MAC": the secret of a job of a deployment.
std::string JobSecret(const std::string& deployment_secret, const std::string& job);

// The name before the slash; "" where there is none.
std::string_view JobOfToken(std::string_view token);

// 256 random bits in hexadecimal digits, a new secret.
std::string NewSecret();

// A key for what those who know `secret` agree on without it: nobody gets the one from the other.
std::string DerivedKey(const std::string& secret, const std::string& purpose);

}  // namespace ringwood
