// Checks whether the servers of a job have enough memory for a plan. The bound of each follows from
// the tensor table and the plan, so it is known before the first message. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

struct ServerLimit {
  std::string label;       // of the server, for the error
  uint64_t max_bytes = 0;  // as its --max-memory says; 0: no limit
};

// `servers` in the order of their nodes, which come after the `workers`; `hosts`: the names of all
// nodes' hosts. `plan` can run on
// `tensors` (CheckPlan). The error names the server, what it may need, its limit, and how to fix
// it.
Status AdmitPlan(const v1::Plan& plan,
                 const google::protobuf::RepeatedPtrField<v1::Tensor>& tensors, uint32_t workers,
                 const std::vector<ServerLimit>& servers, const std::vector<std::string>& hosts);

}  // namespace ringwood
