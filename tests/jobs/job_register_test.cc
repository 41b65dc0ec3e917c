// The register played from text: tests/jobs/scripts/*.txt. A line "TIME VERB JOB…" is an event, the
// indented line below it is what must follow; "options most=2 idle=10 calls=5 open=3" begins anew.
#include "jobs/job_register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "paths.h"
#include "tests/base/at.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

std::string TextOf(const JobRegister::Answer& answer) {
  switch (answer.verdict) {
    case JobRegister::Verdict::kGo:
      return "go";
    case JobRegister::Verdict::kOpen:
      return "open";
    case JobRegister::Verdict::kWait:
      return "wait: " + Message(answer.why);
    case JobRegister::Verdict::kRefuse:
      return "refuse: " + Message(answer.why);
  }
  return "";
}

std::unique_ptr<JobRegister> Begin(std::istringstream* words) {
  JobRegister::Options options;
  for (std::string word; *words >> word;) {
    const std::string name = word.substr(0, word.find('='));
    const double value = std::stod(word.substr(word.find('=') + 1));
    if (name == "most") options.most_jobs = static_cast<size_t>(value);
    if (name == "idle") options.idle_seconds = value;
    if (name == "calls") options.limits.calls_per_second = value;
    if (name == "open") options.limits.open_calls = static_cast<uint64_t>(value);
    // A job named "large" has a limit of its own.
    options.own_limits["large"] = options.limits;
    options.own_limits["large"].open_calls = 1000;
    options.own_limits["large"].calls_per_second = 1000;
  }
  return std::make_unique<JobRegister>(options);
}

// One event and what followed from it.
std::string Happen(JobRegister* jobs, std::istringstream* words) {
  double time = 0;
  std::string verb, job, rest;
  *words >> time >> verb >> job;
  std::getline(*words >> std::ws, rest);
  if (verb == "turn") {
    const auto turn = jobs->Turn(job, At(time));
    return turn.ok() ? absl::StrFormat("in %g s", ToSeconds(*turn))
                     : "refuse: " + Message(turn.status());
  }
  if (verb == "call") return TextOf(jobs->Call(job, false, At(time)));
  if (verb == "server") return TextOf(jobs->Call(job, true, At(time)));
  if (verb == "left") return jobs->Left(job, false, At(time)), "ok";
  if (verb == "server-left") return jobs->Left(job, true, At(time)), "ok";
  if (verb == "opened") return jobs->Opened(job, OkStatus(), At(time)), "ok";
  if (verb == "restored") {
    return jobs->Opened(job, OkStatus(), At(time), Seconds(std::stod(rest))), "ok";
  }
  if (verb == "failed") return jobs->Opened(job, Refused(rest), At(time)), "ok";
  if (verb == "closed") return jobs->Closed(job), "ok";
  if (verb == "look") return "close " + absl::StrJoin(jobs->Close(At(time)), " ");
  if (verb != "describe") return "no such verb: " + verb;
  std::vector<std::string> told;
  for (const auto& each : jobs->Describe(At(time))) {
    told.push_back(absl::StrFormat("%s %s calls=%d refused=%d delayed=%d open=%d idle=%.0f",
                                   each.name, PhaseName(each.phase), each.calls, each.refused,
                                   each.delayed, each.open_calls, each.idle_seconds));
  }
  return absl::StrJoin(told, "; ");
}

TEST(JobRegister, FollowsTheScripts) {
  int scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(RINGWOOD_SOURCE_DIR) +
                                                               "/tests/jobs/scripts")) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path());
    std::unique_ptr<JobRegister> jobs;
    std::string followed;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.empty() || line[0] == '#') continue;
      if (line[0] == ' ') {
        EXPECT_EQ(followed, line.substr(2)) << "line " << number;
        continue;
      }
      std::istringstream words(line);
      if (line.rfind("options", 0) == 0) {
        words >> followed;
        jobs = Begin(&words);
      } else {
        ASSERT_NE(jobs, nullptr) << "line " << number;
        followed = Happen(jobs.get(), &words);
      }
    }
    ++scripts;
  }
  EXPECT_EQ(scripts, 6);
}

TEST(JobLimits, AreReadALineAJob) {
  JobLimits defaults;
  defaults.memory_bytes = 5;
  const auto read = ParseJobLimits(
      "# jobs with limits of their own\n\n"
      "resnet  memory=4G store=1.5k keep=3 every=1000\n"
      "bert    calls=10 open=20  # small\n",
      "FILE", defaults);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 2u);
  EXPECT_EQ(read->at("resnet"), (JobLimits{uint64_t{4} << 30, 1536, 3, 1000,
                                           defaults.calls_per_second, defaults.open_calls}));
  EXPECT_EQ(read->at("bert").memory_bytes, 5u);
  EXPECT_EQ(read->at("bert").open_calls, 20u);
}

TEST(JobLimits, WhatIsWrongIsNamedWithItsLine) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"a\na\n", "FILE, line 2: the job \"a\" stands here twice"},
           {"a memory=1G memory=2G\n", "FILE, line 1: the limit \"memory\" stands here twice"},
           {"a memory\n", "FILE, line 1: \"memory\" is not NAME=VALUE"},
           {"\na memory=x\n", "FILE, line 2: \"x\" is not a size"},
           {"a keep=1\n", "\"1\" is not a number from 2 on"},
           {"a calls=0\n", "\"0\" is not a number from 1 on"},
           {"a open=3x\n", "\"3x\" is not a number"},
           {"a speed=1\n", "there is no limit \"speed\": memory, store, keep"}}) {
    const auto read = ParseJobLimits(text, "FILE", JobLimits());
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(read.status()), HasSubstr(why));
  }
}

}  // namespace
}  // namespace ringwood
