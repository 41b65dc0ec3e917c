// Which roles may make which call: one table of all methods that a server offers. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ringwood {

struct CallRight {
  std::string_view method;  // as gRPC has it: "/ringwood.v1.Coordinator/Vote"
  unsigned roles;           // of CallerRole
};

std::span<const CallRight> CallRights();

// Null: there is no such call.
const CallRight* RightOf(std::string_view method);

// "/ringwood.v1.Coordinator/Vote" as people say it: "Coordinator.Vote".
std::string CallName(std::string_view method);

}  // namespace ringwood
