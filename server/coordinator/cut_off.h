// Decides who of a world stays apart because the data plane does not reach it. Pure.
//
// A worker that waited in vain says for whom (Held.silent), while all of them reach the
// coordinator. Each pair that does not hear each other must not be in one epoch; as few as possible
// stay apart.
#pragma once

#include <cstddef>
#include <vector>

namespace ringwood {

struct Complaint {
  size_t from = 0;
  size_t about = 0;  // == from: it heard nobody
};

// Of `workers`, numbered from 0 and at least 1, those that stay apart, in ascending order: who is
// in most pairs first, of equals the one that others complain of, then the last. Not all of them.
std::vector<size_t> CutOff(size_t workers, const std::vector<Complaint>& complaints);

}  // namespace ringwood
