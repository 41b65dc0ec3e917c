#include "server/calls/call_rights.h"

#include <algorithm>

#include "proto/job_token.h"

namespace ringwood {
namespace {

constexpr unsigned kMembers = kRankRole | kServerRole;
constexpr unsigned kReaders = kRankRole | kObserverRole;

// A member of a role joins in that role only, which the message tells (Claimant).
constexpr CallRight kRights[] = {
    {"/ringwood.v1.Coordinator/Join", kMembers},
    {"/ringwood.v1.Coordinator/Attend", kMembers},
    {"/ringwood.v1.Coordinator/Agree", kRankRole},
    {"/ringwood.v1.Coordinator/Vote", kRankRole},
    {"/ringwood.v1.Coordinator/Reattach", kMembers},
    {"/ringwood.v1.Coordinator/Leave", kMembers},
    {"/ringwood.v1.Coordinator/Pull", kReaders},
    {"/ringwood.v1.Coordinator/Status", kEveryRole},
    {"/ringwood.v1.Store/Save", kRankRole},
    {"/ringwood.v1.Store/Meet", kRankRole},
    {"/ringwood.v1.Store/Await", kRankRole},
    {"/ringwood.v1.Store/Load", kReaders},
    {"/ringwood.v1.Store/Items", kReaders},
    {"/ringwood.v1.Store/Hold", kReaders},
    {"/ringwood.v1.Parts/List", kServerRole},
    {"/ringwood.v1.Parts/Gather", kServerRole},
    {"/ringwood.v1.Parts/Remove", kServerRole},
    {"/ringwood.v1.Parts/Check", kServerRole},
    {"/ringwood.v1.Updates/Log", kRankRole},
    {"/ringwood.v1.Updates/Replay", kRankRole},
    {"/ringwood.v1.Deployment/Jobs", kEveryRole},
};

}  // namespace

std::span<const CallRight> CallRights() { return kRights; }

const CallRight* RightOf(std::string_view method) {
  const auto found = std::find_if(std::begin(kRights), std::end(kRights),
                                  [&](const CallRight& right) { return right.method == method; });
  return found == std::end(kRights) ? nullptr : found;
}

std::string CallName(std::string_view method) {
  std::string name(method.substr(std::min(method.size(), method.rfind('.') + 1)));
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

}  // namespace ringwood
