// The global sample cursor: which samples of a pass over the data a step takes, and which rank has
// which of them. A value without clock and thread: ranks that give it the same commits hold the
// same state.
//
// A pass is a permutation of all samples. What is not in a committed step lies in one of three
// places:
//
//   positions   0 ─────────── returned ────────── cursor ─────────────────────────── samples
//   of a pass   │ used, or in a cut, or returned │ not yet taken                      │
//
// A *cut* is the global batch of one step: up to `batch` positions, first those that were returned,
// then those behind the cursor, divided evenly and in order among the *members*: the ranks of the
// epoch that committed the step before. (Not those of the present epoch: a rank that applies the
// last step of an epoch while the next one begins must cut as those do that were already further.)
// A rank that is not a member of a cut has no share of it: weight 0.
//
// A cut is fixed when the step `ahead` places before it commits, so that data loaders can run ahead
// with certainty. When its step commits, the shares of members that did not contribute (dead, or
// weight 0) return to the pass, and are the first that the next cut takes. So each sample of a pass
// is used exactly once in committed steps, whoever joins, dies, is late, or exchanges a step again.
// A step that is skipped for a NaN or Inf has used its samples: the same ones would make it again.
// The pass is over when no cut is left; the next one begins by itself.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

struct SamplerOptions {
  uint64_t samples = 0;  // of a pass: 1 to 2^48
  uint64_t batch = 0;    // samples of a step, all ranks together: 1 to 2^32
  uint64_t seed = 0;
  int world = 1;          // members of the first cut: ranks 0 to world - 1
  int ahead = 0;          // steps that a data loader may be ahead of the commit: 0 to 1024
  bool in_order = false;  // no shuffling
};

struct Positions {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const Positions&) const = default;
};

class Sampler {
 public:
  static StatusOr<Sampler> Make(const SamplerOptions& options);

  uint64_t pass() const { return pass_; }  // finished passes

  // The samples of `rank` in the step that comes `ahead` steps after the next one to commit. Empty:
  // it has none. Nothing: the pass has no such step, as far as is known now. Refused: further ahead
  // than the options allow.
  StatusOr<std::optional<std::vector<uint64_t>>> Share(int rank, int ahead = 0) const;

  // The next step was committed: `members` are the ranks of the epoch that committed it,
  // `contributors` those of them with a weight above 0. Both ascending.
  Status Committed(std::span<const int> members, std::span<const int> contributors);

  // All of it in a few bytes (some a returned range and a member of each cut), equal on all ranks.
  std::string State() const;
  // Takes the place of this state: the options but for `world` must be those it was made with. With
  // a `world` other than 0 the ranks are 0 to world - 1 from now on, and cuts that were made for
  // others are made again. Corrupt or Invalid: nothing has changed.
  Status Restore(const std::string& state, int world = 0);

 private:
  struct Cut {
    std::vector<Positions> positions;
    std::vector<int> members;
  };

  explicit Sampler(const SamplerOptions& options) : options_(options) {}
  std::vector<Positions> ShareOf(const Cut& cut, size_t member) const;
  void Return(std::span<const Positions> positions);
  Cut Take();
  void Fill();  // cuts_ reaches `ahead` steps beyond the next one, or to the end of the pass
  Status Read(const std::string& state);
  Status CheckRead() const;  // of what was read: it is a state that Committed can lead to
  void Recut(int world);

  SamplerOptions options_;
  uint64_t pass_ = 0;
  uint64_t cursor_ = 0;              // positions from here on were never taken
  std::vector<Positions> returned_;  // ascending, disjoint, not adjacent
  std::vector<int> members_;         // of the cuts to come, ascending
  std::deque<Cut> cuts_;             // of the steps that are not committed, in order
};

}  // namespace ringwood
