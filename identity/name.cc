#include "identity/name.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr char kScheme[] = "ringwood://";
constexpr size_t kMaxJobBytes = 64;
constexpr size_t kShownBytes = 100;
constexpr IdentityRole kRoles[] = {IdentityRole::kRank, IdentityRole::kServer,
                                   IdentityRole::kObserver};

Status CheckJobName(const std::string& job) {
  const bool plain = std::all_of(job.begin(), job.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && std::strchr("._-", c) != nullptr);
  });
  if (plain && !job.empty() && job.size() <= kMaxJobBytes) return OkStatus();
  return Invalid(absl::StrFormat(
      "\"%s\" is no name of a job: 1 to %d letters, digits, \".\", \"_\" and \"-\" are possible",
      Printable(job, kShownBytes), kMaxJobBytes));
}

// "45 s", "12 min", "3 h", "2 days".
std::string Span(int64_t seconds) {
  if (seconds < 120) return absl::StrFormat("%d s", seconds);
  if (seconds < 2 * 3600) return absl::StrFormat("%d min", seconds / 60);
  if (seconds < 2 * 86400) return absl::StrFormat("%d h", seconds / 3600);
  return absl::StrFormat("%d days", seconds / 86400);
}

std::string SlotText(int slot) { return slot == kAnySlot ? "any" : std::to_string(slot); }

}  // namespace

const char* ToString(IdentityRole role) {
  if (role == IdentityRole::kRank) return "rank";
  return role == IdentityRole::kServer ? "server" : "observer";
}

StatusOr<IdentityRole> ParseIdentityRole(const std::string& text) {
  for (const IdentityRole role : kRoles) {
    if (text == ToString(role)) return role;
  }
  return Invalid(absl::StrFormat("the role \"%s\" is none of rank, server and observer",
                                 Printable(text, kShownBytes)));
}

Status CheckIdentityName(const IdentityName& name) {
  RW_RETURN_IF_ERROR(CheckJobName(name.job));
  if (name.slot < kAnySlot || name.slot > IdentityName::kMaxSlot) {
    return Invalid(
        absl::StrFormat("slot %d: 0 to %d are possible", name.slot, IdentityName::kMaxSlot));
  }
  if (name.job == kAnyJob && name.role != IdentityRole::kServer) {
    return Invalid(absl::StrFormat("only a server may belong to any job, a %s belongs to one",
                                   ToString(name.role)));
  }
  return OkStatus();
}

std::string ToUri(const IdentityName& name) {
  return absl::StrFormat("%s%s/%s/%s", kScheme, name.job, ToString(name.role), SlotText(name.slot));
}

StatusOr<IdentityName> ParseIdentityName(const std::string& uri) {
  const Status none = Invalid(absl::StrFormat("\"%s\" is not of the form ringwood://JOB/ROLE/SLOT",
                                              Printable(uri, kShownBytes)));
  const size_t scheme = sizeof(kScheme) - 1;
  if (uri.compare(0, scheme, kScheme) != 0) return none;
  const size_t job_end = uri.find('/', scheme);
  if (job_end == std::string::npos) return none;
  const size_t role_end = uri.find('/', job_end + 1);
  if (role_end == std::string::npos) return none;
  IdentityName name;
  name.job = uri.substr(scheme, job_end - scheme);
  RW_ASSIGN_OR_RETURN(name.role,
                      ParseIdentityRole(uri.substr(job_end + 1, role_end - job_end - 1)));
  const std::string slot = uri.substr(role_end + 1);
  if (slot != "any") {
    const char* const end = slot.data() + slot.size();
    const auto [stop, error] = std::from_chars(slot.data(), end, name.slot);
    if (error != std::errc() || stop != end || name.slot < 0) return none;
  }
  RW_RETURN_IF_ERROR(CheckIdentityName(name));
  if (ToUri(name) != uri) return none;  // one spelling each: no "007"
  return name;
}

Status MayMeet(const IdentityName& self, const IdentityName& peer) {
  const bool any = self.job == kAnyJob || peer.job == kAnyJob;
  if (self.job != peer.job && !any) {
    return Denied(absl::StrFormat(
        "the certificate %s belongs to another job than %s: give each process a certificate of "
        "its own job",
        ToUri(peer), ToUri(self)));
  }
  const bool server = self.role == IdentityRole::kServer || peer.role == IdentityRole::kServer;
  const bool ranks = self.role == IdentityRole::kRank && peer.role == IdentityRole::kRank;
  if (server || ranks) return OkStatus();
  return Denied(
      absl::StrFormat("the certificate %s may not speak with %s: an observer speaks with "
                      "servers only",
                      ToUri(peer), ToUri(self)));
}

Status MayClaim(const IdentityName& name, IdentityRole role, int slot) {
  if (name.role == role && (name.slot == slot || name.slot == kAnySlot)) return OkStatus();
  return Denied(absl::StrFormat(
      "the certificate %s is not that of %s %s: give this process the certificate that was issued "
      "for it (--identity, RINGWOOD_IDENTITY)",
      ToUri(name), ToString(role), SlotText(slot)));
}

Status IsMeant(const IdentityName& peer, IdentityRole role, int slot) {
  if (peer.role == role && (slot == kAnySlot || peer.slot == slot || peer.slot == kAnySlot)) {
    return OkStatus();
  }
  return Denied(absl::StrFormat(
      "%s %s was to answer, but the certificate is %s: is the address right, and has each process "
      "its own certificate?",
      ToString(role), SlotText(slot), ToUri(peer)));
}

Status CheckValidity(const std::string& what, const Validity& validity, int64_t now) {
  if (now < validity.from) {
    return Denied(absl::StrFormat(
        "%s is not yet valid: it begins in %s; compare the clocks of this host and of the one that "
        "issued it",
        what, Span(validity.from - now)));
  }
  if (now <= validity.until) return OkStatus();
  return Denied(absl::StrFormat(
      "%s expired %s ago: issue a new one (ringwood ca issue), or compare this host's clock", what,
      Span(now - validity.until)));
}

int64_t RenewalTime(const Validity& validity) {
  return validity.until - (validity.until - validity.from) / 3;
}

}  // namespace ringwood
