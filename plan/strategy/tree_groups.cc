// Sparse tensors whose routes are given. A large one is a group of its own: a group's result has
// room for the largest entries of all its tensors together, so that one with large values takes
// places of its neighbours. Small ones share messages, or their start-ups would be the step.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/strategy/nic.h"
#include "plan/strategy/problem.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

std::string ReasonOf(const Problem& problem, const Group& group, double ring_bytes) {
  const std::string seconds = FormatSeconds(SecondsOf(problem, group));
  if (group.tensors.size() > 1) {
    return absl::StrFormat("sparse: %d tensors up the tree in %s, one start-up of %s",
                           group.tensors.size(), seconds, FormatSeconds(problem.tree.Startup()));
  }
  if (problem.input->tensors[group.tensors[0]].route == "sparse") return "sparse: set by the user";
  return absl::StrFormat("sparse: %s up the tree against %s more on the ring", seconds,
                         FormatSeconds(problem.ring.Seconds(ring_bytes) - problem.ring.Startup()));
}

// What a group costs beside its bytes: a start-up, and its place among those on their way.
bool IsSmall(const Problem& problem, double bytes) {
  const double place = problem.tree_delay / kTreesAtOnce;
  return problem.tree.Seconds(bytes) <= 2 * (problem.tree.Startup() + place);
}

// One message, and when its entries are selected.
struct Piece {
  std::vector<uint32_t> tensors;
  double selected = 0;
};

// The tensors of `lane` as messages: its exact plan, cut where the density changes, because a group
// has one, and where a group would have too many elements.
std::vector<Piece> Merged(const Problem& problem, const std::vector<uint32_t>& tensors,
                          const LaneInput& lane) {
  std::vector<size_t> lasts = CapElements(problem, tensors, Exact(lane));
  const auto density = [&](size_t i) { return problem.input->tensors[tensors[i]].density; };
  std::vector<Piece> pieces;
  size_t next = 0;  // of `lasts`
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool begins = i == 0 || lasts[next] == i - 1 || density(i) != density(i - 1);
    if (i > 0 && lasts[next] == i - 1) ++next;
    if (begins) pieces.emplace_back();
    pieces.back().tensors.push_back(tensors[i]);
    pieces.back().selected = lane.ready_seconds[i];
  }
  return pieces;
}

}  // namespace

std::vector<size_t> CapElements(const Problem& problem, const std::vector<uint32_t>& tensors,
                                const std::vector<size_t>& lasts) {
  std::vector<size_t> capped;
  size_t first = 0;
  for (const size_t last : lasts) {
    uint64_t elements = 0;
    for (size_t i = first; i <= last; ++i) {
      const uint64_t more = problem.input->tensors[tensors[i]].elements;
      if (elements > 0 && elements + more > kMaxGroupElements) {
        capped.push_back(i - 1);
        elements = 0;
      }
      elements += more;
    }
    capped.push_back(last);
    first = last + 1;
  }
  return capped;
}

std::vector<Group> TreeGroups(const Problem& problem, const std::vector<uint32_t>& tensors) {
  const std::vector<TensorSpec>& table = problem.input->tensors;
  std::vector<Piece> pieces;
  std::vector<uint32_t> small;
  LaneInput lane;  // of the small ones
  lane.cost = problem.tree;
  lane.delay.seconds = problem.tree_delay;
  lane.window = kTreesAtOnce;
  double selected = 0;
  for (const uint32_t t : tensors) {
    selected = std::max(selected, problem.ready[t] + SelectionSeconds(problem, t));
    const double bytes = problem.input->entry_bytes *
                         static_cast<double>(EntriesOf(table[t].density, table[t].elements));
    if (!IsSmall(problem, bytes)) {
      pieces.push_back({{t}, selected});
      continue;
    }
    small.push_back(t);
    lane.ready_seconds.push_back(selected);
    lane.bytes.push_back(static_cast<uint64_t>(bytes));
  }
  for (Piece& piece : Merged(problem, small, lane)) pieces.push_back(std::move(piece));
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.selected < b.selected; });
  std::vector<Group> groups;
  Nic nic(problem);
  for (Piece& piece : pieces) {
    const double bytes = RingBytes(problem, piece.tensors);
    const double density = table[piece.tensors[0]].density;
    Group group = TreeGroup(problem, std::move(piece.tensors), density);
    nic.Send(piece.selected, &group);
    group.reason = ReasonOf(problem, group, bytes);
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace ringwood
