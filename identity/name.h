// Who a process is, as its certificate says it: one URI, ringwood://JOB/ROLE/SLOT, among the
// certificate's subject alternative names. There are no DNS names: where a process runs proves
// nothing. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringwood {

enum class IdentityRole {
  kRank,      // takes part in the training
  kServer,    // coordinates, stores, reduces
  kObserver,  // asks: status, weights
};

const char* ToString(IdentityRole role);  // "rank", "server", "observer"
StatusOr<IdentityRole> ParseIdentityRole(const std::string& text);

// "any" in place of a job or slot: all of them. Only a server may be of any job.
inline constexpr char kAnyJob[] = "any";
inline constexpr int kAnySlot = -1;

// The one DNS name in all certificates, which tells nothing: TLS libraries ask for a name of a
// host.
inline constexpr char kTlsHostName[] = "ringwood";

struct IdentityName {
  std::string job;  // 1 to 64 letters, digits and . _ -, or kAnyJob
  IdentityRole role = IdentityRole::kRank;
  int slot = kAnySlot;  // the rank, the number of the server; 0 to kMaxSlot

  static constexpr int kMaxSlot = 65535;

  bool operator==(const IdentityName&) const = default;
};

// "ringwood://mnist/rank/3".
std::string ToUri(const IdentityName& name);
// Invalid: the text is no such URI; says which part is wrong.
StatusOr<IdentityName> ParseIdentityName(const std::string& uri);
Status CheckIdentityName(const IdentityName& name);

// Whether the two may have a connection: both of one job, one of them a server, or both ranks.
// Denied names both.
Status MayMeet(const IdentityName& self, const IdentityName& peer);

// Whether a caller with this certificate may say that it is `role`, `slot`. Denied names both, and
// the remedy.
Status MayClaim(const IdentityName& name, IdentityRole role, int slot);

// Whether the other side is whom one meant to speak with; kAnySlot: anyone of that role.
Status IsMeant(const IdentityName& peer, IdentityRole role, int slot);

// A certificate's first and last second, in Unix time.
struct Validity {
  int64_t from = 0, until = 0;

  bool operator==(const Validity&) const = default;
};

// OK, or why a certificate does not count now: expired, or not yet valid, and by how much.
// `what` names it.
Status CheckValidity(const std::string& what, const Validity& validity, int64_t now);

// When to renew a certificate: with a third of its time left, so that two tries may fail.
int64_t RenewalTime(const Validity& validity);

}  // namespace ringwood
