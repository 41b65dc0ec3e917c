// Replaces the sockets of the parent's sessions in a forked child. With copies of them open in a
// data loader's worker, peers would see the trainer's death as silence and not as a broken
// connection, and its ports would stay in use.
//
// UCX and gRPC do not tell which sockets they make. But all of them are in epoll sets that are made
// while the first sessions open. So these sets are remembered, and at a fork the kernel is asked
// (/proc/self/fdinfo) what is in them. In the child /dev/null takes the place of each socket: its
// number stays in use, because libraries in the child may still close it.
#pragma once

#include <vector>

namespace ringwood {

// Descriptors of this process's epoll sets, ascending. None without /proc.
std::vector<int> EpollSets();

// In children forked from here on, sockets over IP in the epoll sets that are not among `before`
// are replaced. Sets that other threads made meanwhile count as ours.
void GuardEpollSetsSince(const std::vector<int>& before);

// Forgets the sets that were closed: their numbers may be reused from now on.
void ForgetClosedEpollSets();

}  // namespace ringwood
