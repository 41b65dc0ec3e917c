#include "server/coordinator/admission.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/sparse_groups.h"
#include "plan/wire.h"
#include "sparse/reducer/part.h"

namespace ringwood {

Status AdmitPlan(const v1::Plan& plan,
                 const google::protobuf::RepeatedPtrField<v1::Tensor>& tensors, uint32_t workers,
                 const std::vector<ServerLimit>& servers, const std::vector<std::string>& hosts) {
  const bool unlimited = std::all_of(servers.begin(), servers.end(),
                                     [](const ServerLimit& server) { return !server.max_bytes; });
  if (unlimited) return OkStatus();
  RW_ASSIGN_OR_RETURN(const Plan read, FromProto(plan));
  const TreeShape shape{.workers = static_cast<int>(workers),
                        .reducers = static_cast<int>(servers.size()),
                        .fanout = static_cast<int>(read.fanout),
                        .hosts = HostNumbers(hosts)};
  std::vector<uint64_t> elements;
  for (const v1::Tensor& tensor : tensors) elements.push_back(tensor.elements());
  RW_ASSIGN_OR_RETURN(const std::vector<SparseGroup> groups, SparseGroupsOf(read, shape, elements));
  const bool warms_up = std::any_of(read.groups.begin(), read.groups.end(),
                                    [](const Group& group) { return group.final_density != 0; });
  for (size_t s = 0; s < servers.size(); ++s) {
    const uint64_t limit = servers[s].max_bytes;
    const uint64_t bound =
        ReducerMemoryBound(shape, static_cast<int>(workers) + static_cast<int>(s), groups);
    if (limit == 0 || bound <= limit) continue;
    return Refused(
        absl::StrFormat("%s may need %d bytes (%s) for the sparse groups of this job, --max-memory "
                        "allows %s: allow "
                        "more, use more servers or lower densities%s",
                        servers[s].label, bound, FormatBytes(static_cast<double>(bound)),
                        FormatBytes(static_cast<double>(limit)),
                        warms_up ? ", or leave out the density warm-up" : ""));
  }
  return OkStatus();
}

}  // namespace ringwood
