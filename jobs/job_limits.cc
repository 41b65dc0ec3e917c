#include "jobs/job_limits.h"

#include <charconv>
#include <set>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/units.h"

namespace ringwood {
namespace {

StatusOr<uint64_t> CountIn(const std::string& text, uint64_t least) {
  uint64_t count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && stop == text.data() + text.size() && count >= least) return count;
  return Invalid(absl::StrFormat("\"%s\" is not a number from %d on", text, least));
}

// "store=200G" of a line.
Status ReadLimit(const std::string& word, JobLimits* limits) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return Invalid("\"" + word + "\" is not NAME=VALUE");
  const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
  if (name == "memory" || name == "store") {
    RW_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(value));
    (name == "memory" ? limits->memory_bytes : limits->store_bytes) = bytes;
    return OkStatus();
  }
  const uint64_t least = name == "keep" ? 2 : name == "every" ? 0 : 1;
  RW_ASSIGN_OR_RETURN(const uint64_t count, CountIn(value, least));
  if (name == "keep") {
    limits->keep_checkpoints = count;
  } else if (name == "every") {
    limits->keep_every = count;
  } else if (name == "calls") {
    limits->calls_per_second = static_cast<double>(count);
  } else if (name == "open") {
    limits->open_calls = count;
  } else {
    return Invalid("there is no limit \"" + name + "\": memory, store, keep, every, calls, open");
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::map<std::string, JobLimits>> ParseJobLimits(const std::string& text,
                                                          const std::string& source,
                                                          const JobLimits& defaults) {
  std::map<std::string, JobLimits> jobs;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string job, word;
    if (!(words >> job)) continue;
    const auto [place, added] = jobs.emplace(job, defaults);
    Status read = added ? OkStatus() : Invalid("the job \"" + job + "\" stands here twice");
    std::set<std::string> named;
    while (read.ok() && words >> word) {
      const std::string name = word.substr(0, word.find('='));
      read = named.insert(name).second ? ReadLimit(word, &place->second)
                                       : Invalid("the limit \"" + name + "\" stands here twice");
    }
    if (!read.ok()) return Annotate(read, absl::StrFormat("%s, line %d", source, number));
  }
  return jobs;
}

}  // namespace ringwood
