// One job of a deployment, as every server of it sees it: from the deployment's options follow the
// job's, the folder of its store, and the token of its reducers. Pure, but for that token.
#pragma once

#include <string>

#include "jobs/job_limits.h"
#include "server/server_options.h"

namespace ringwood {

// In the deployment's store, which there is.
std::string FolderOfJob(const std::string& store, const std::string& job);

ServerOptions OptionsOfJob(const ServerOptions& deployment, const std::string& job,
                           const JobLimits& limits);

// What a reducer of the job brings, as its server does not end before.
std::string ServersTokenOf(const std::string& job_secret);

}  // namespace ringwood
