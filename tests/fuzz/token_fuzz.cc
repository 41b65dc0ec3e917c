// A token from a stranger: accepted are the secret and what was made from it, and nothing that
// differs in a byte. And the operator's limits of jobs.
//
// sources: proto/job_token.cc jobs/job_limits.cc
// sources: base/random.cc base/status.cc base/check.cc base/units.cc
// libraries: libcrypto
#include <cstdint>
#include <string>

#include "base/check.h"
#include "jobs/job_limits.h"
#include "proto/job_token.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringwood;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string secret = JobSecret("fuzz", "a");
  const std::string issued = IssueToken(secret, kRankRole, 2'000'000'000, 7);
  const auto rights = CheckToken(secret, text, 1'790'000'000);
  RW_CHECK(rights.ok() == (text == secret || text == issued));
  if (rights.ok()) RW_CHECK(rights->roles == ClaimedRoles(text) && JobOfToken(text) == "a");
  (void)ClaimedRoles(text);
  // The input for a secret: what is made from it is accepted by it, whatever bytes it has.
  const std::string made = IssueToken(text, kObserverRole, 2'000'000'000, 7);
  if (size < 512) RW_CHECK(CheckToken(text, made, 1'790'000'000).ok());

  const auto limits = ParseJobLimits(text, "FILE", JobLimits());
  if (!limits.ok()) return 0;
  for (const auto& [job, limit] : *limits) {
    RW_CHECK(!job.empty() && limit.keep_checkpoints >= 2 && limit.open_calls >= 1);
    RW_CHECK(limit.calls_per_second >= 1);
  }
  return 0;
}
