#include "server/calls/member_label.h"

#include "absl/strings/str_format.h"

namespace ringwood {

std::string MemberLabel(v1::Role role, uint32_t rank, const std::string& host) {
  return absl::StrFormat("%s %d (host %s)", role == v1::ROLE_REDUCER ? "server" : "rank", rank,
                         host);
}

}  // namespace ringwood
