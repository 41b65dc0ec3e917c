// A forked child does not keep the sockets of its parent's sessions: with a copy of them open in a
// data loader's worker, the death of the trainer would be silence to its peers and not a broken
// connection, and its ports would stay taken.
//
// UCX and gRPC make the sockets and name none of them. But all are in epoll sets which they make
// while the first sessions open, so it is these sets that are remembered, and at a fork the kernel
// is asked (/proc/self/fdinfo) what is in them. In the child /dev/null takes the place of each
// socket: its number stays taken, as libraries in the child may still close it.
#pragma once

#include <vector>

namespace ringwood {

// Descriptors of this process's epoll sets, ascending. None where /proc is not there.
std::vector<int> EpollSets();

// In children forked from here on, sockets over IP in the epoll sets that are not among `before`
// are replaced. Sets of other threads that appeared meanwhile are taken for ours.
void GuardEpollSetsSince(const std::vector<int>& before);

// Forgets the sets that were closed, whose numbers may be anybody's from now on.
void ForgetClosedEpollSets();

}  // namespace ringwood
