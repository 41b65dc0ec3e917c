// The jobs of a run: what each host is told to start. Pure.
#pragma once

#include <string>

#include "launch/job.h"
#include "launch/run.h"

namespace ringwood {

// Silence after which the launcher and a worker on another host give each other up.
double SilenceSeconds(const RunOptions& options);

// Within which a remote shell has to start a worker: before --join-timeout ends the wait for that
// worker's processes, so that the host is named, and tried again in an elastic job.
double StartSeconds(const RunOptions& options);

// Which reducer it is; the number behind the last: none, a coordinator alone.
int NumberOfServer(const RunOptions& options, int index);

// Servers are numbered as reducers, for the user too; one that is none is the "coordinator".
std::string NameOfServer(const RunOptions& options, int index);  // "server 0"
const std::string& HostOfServer(const RunOptions& options, int index);

// The job of server process `index`. `coordinator`: whom it joins; of index 0 where it listened
// before, empty at its first start.
Job ServerJob(const RunOptions& options, int index, const std::string& coordinator);

// The job of one host's ranks, and of one rank alone.
Job RankJob(const RunOptions& options, const HostRanks& place);
Job RankJob(const RunOptions& options, int rank);

// The job that removes a temporary store.
Job CleaningJob(const RunOptions& options);

}  // namespace ringwood
