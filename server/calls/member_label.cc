#include "server/calls/member_label.h"

#include "absl/strings/str_format.h"
#include "server/calls/limits.h"

namespace ringwood {

std::string MemberLabel(v1::Role role, uint32_t rank, const std::string& host) {
  const bool reduces = role == v1::ROLE_REDUCER;
  const bool of_rank = reduces && rank >= kFirstOfRanks;
  return absl::StrFormat("%s %d (host %s)",
                         of_rank   ? "reducer of rank"
                         : reduces ? "server"
                                   : "rank",
                         of_rank ? rank - kFirstOfRanks : rank, host);
}

}  // namespace ringwood
