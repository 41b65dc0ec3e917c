// What is wrong with hosts for a job, and what to do about it: a pure judgement of facts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace ringwood {

enum class Severity : uint8_t { kNote, kWarning, kError };
const char* NameOf(Severity severity);  // "note", "warning", "error"

struct Finding {
  // An error: a job would fail; a warning: it would be slow or fragile.
  Severity severity = Severity::kNote;
  std::string what;     // a sentence without its full stop
  std::string where;    // "h2", "h1 - h2", "all hosts"
  std::string remedy;   // in the imperative
  bool passes = false;  // trying again may help
  bool operator==(const Finding&) const = default;
};

// Errors first. Empty: nothing is wrong.
std::vector<Finding> Judge(const ClusterFacts& facts);

// Its parts: what each host tells by itself, what hosts tell beside each other, what the links
// between them tell.
std::vector<Finding> JudgeHost(const HostFacts& host, const ClusterFacts& facts);
std::vector<Finding> JudgeBuilds(const ClusterFacts& facts);
std::vector<Finding> JudgeAddresses(const ClusterFacts& facts);
std::vector<Finding> JudgeLinks(const ClusterFacts& facts);

// Of `ringwood doctor`: 0 without errors; 75 if all errors may pass; else 78.
int ExitCodeOf(const std::vector<Finding>& findings);

}  // namespace ringwood
