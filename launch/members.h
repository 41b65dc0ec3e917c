// The members of a job by their numbers: servers first, then ranks, spares included. Pure.
#pragma once

#include <string>
#include <vector>

#include "launch/output.h"
#include "launch/run.h"

namespace ringwood {

class Members {
 public:
  explicit Members(const RunOptions& options);

  int count() const { return static_cast<int>(hosts_.size()); }
  bool IsServer(int member) const { return member < servers_; }
  int RankOf(int member) const { return member - servers_; }
  int OfRank(int rank) const;  // -1: the job has no such rank

  const std::string& host(int member) const { return hosts_[member]; }
  const std::vector<std::string>& hosts() const { return hosts_; }  // by member
  std::string Name(int member) const;  // "rank 2 (host h1)", "server 0 (host h1)"
  std::vector<Output::Voice> Voices() const;

 private:
  const int servers_;
  std::vector<std::string> hosts_;
  std::vector<std::string> names_;  // without their host
};

}  // namespace ringwood
