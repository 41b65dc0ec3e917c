#include "server/deployed_job.h"

#include <chrono>
#include <cstdint>

#include "base/random.h"
#include "proto/job_token.h"

namespace ringwood {
namespace {

constexpr int64_t kYear = 365 * 86'400;

int64_t UnixNow() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

}  // namespace

std::string FolderOfJob(const std::string& store, const std::string& job) {
  return store + "/jobs/" + job;
}

ServerOptions OptionsOfJob(const ServerOptions& deployment, const std::string& job,
                           const JobLimits& limits) {
  ServerOptions options = deployment;
  options.token = JobSecret(deployment.token, job);
  if (!deployment.store.empty()) options.store = FolderOfJob(deployment.store, job);
  options.of_deployment = true;
  options.max_memory_bytes = limits.memory_bytes;
  options.max_store_bytes = limits.store_bytes;
  options.retention = {limits.keep_checkpoints, limits.keep_every};
  options.http.clear();
  options.failed = nullptr;  // for launchers, which have one job
  options.began = nullptr;
  options.awaits = nullptr;
  return options;
}

std::string ServersTokenOf(const std::string& job_secret) {
  return IssueToken(job_secret, kServerRole, UnixNow() + 10 * kYear, Unpredictable());
}

}  // namespace ringwood
