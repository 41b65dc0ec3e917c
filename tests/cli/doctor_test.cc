// `ringwood doctor` from outside: on this machine, and on a second "host" that a remote shell of
// the test reaches here. tests/python/test_doctor.py has network namespaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A remote shell for hosts that are this machine.
std::string HereShell(const TemporaryDirectory& directory) {
  return directory.Write("here", "#!/bin/sh\nshift\nexec \"$@\"\n", true);
}

std::vector<std::string> TwoHosts(const std::string& shell, const std::string& program) {
  return {"doctor",
          "--json",
          "-H",
          "localhost,other",
          "--rsh=" + shell,
          "--network-interface=lo",
          "--remote-program=" + program};
}

TEST(Doctor, ThisMachineHasFactsPlanAndVerdict) {
  TemporaryDirectory directory;
  const Finished run = RunProgram({"doctor", "--json", "--store", directory.path() + "/store"});
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  const auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["hosts"][0]["host"], "localhost");
  EXPECT_EQ(json["hosts"][0]["address"], "127.0.0.1");
  EXPECT_EQ(json["hosts"][0]["transport"], "ucx");
  EXPECT_GT(json["hosts"][0]["disk"]["write_bytes_per_second"], 0);
  EXPECT_EQ(json["planned"][0], "data plane: UCX over tcp on lo");
  EXPECT_THAT(json["verdict"].get<std::string>(), HasSubstr("ready"));
}

TEST(Doctor, PairsOfHostsAreMeasured) {
  TemporaryDirectory directory;
  const Finished run = RunProgram(TwoHosts(HereShell(directory), kProgram));
  const auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << run.out << run.err;
  ASSERT_EQ(json["links"].size(), 1u) << run.out;
  EXPECT_EQ(json["links"][0]["error"], "");
  EXPECT_EQ(json["links"][0]["to"], "other");
  EXPECT_GT(json["links"][0]["sent_bytes_per_second"], 0);
  EXPECT_THAT(run.out, HasSubstr("the address 127.0.0.1 is that of several hosts"));
  EXPECT_EQ(run.code, 78);
}

TEST(Doctor, AHostOfAnotherBuildIsRefusedByName) {
  TemporaryDirectory directory;
  const std::string script = absl::StrFormat(
      "#!/bin/sh\n"
      "if [ \"$1\" = worker ]; then exec %s \"$@\"; fi\n"
      "%s \"$@\" | sed -u 's/\"ringwood\":\"[^\"]*\"/\"ringwood\":\"0.0.9\"/'\n",
      kProgram, kProgram);
  const std::string other = directory.Write("ringwood", script, true);
  const Finished run = RunProgram(TwoHosts(HereShell(directory), other));
  EXPECT_EQ(run.code, 78) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("ringwood is 0.0.9 of commit"),
                             HasSubstr("\"where\": \"other\""), HasSubstr("same package")));
}

TEST(Doctor, AHostThatCannotBeReachedIsNamedAndMayBeBack) {
  const Finished run = RunProgram({"doctor", "-H", "nowhere", "--rsh", "false"});
  EXPECT_EQ(run.code, 75) << run.out << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("error: nowhere: the connection to host nowhere ended"),
                             HasSubstr("verdict: not ready: 1 error")));
}

TEST(Doctor, RulesForTheFirewallNameTheAddress) {
  const Finished run = RunProgram({"doctor", "--firewall", "--port-range", "20000-20009"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("127.0.0.1,  # localhost"), HasSubstr("20000-20009")));
}

TEST(Doctor, ReadsWhetherTheNetworkIsPrivateFromTheEnvironmentToo) {
  const Finished run = RunProgram({"doctor", "--no-pairs"}, {{"RINGWOOD_TRUSTED_FABRIC", "maybe"}});
  EXPECT_EQ(run.code, 78) << run.out;
  EXPECT_THAT(run.err, HasSubstr("(RINGWOOD_TRUSTED_FABRIC)"));
}

TEST(Doctor, WrongFlagsAreRefused) {
  for (const auto& [flags, named] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--firewall"}, "--port-range"},
           {{"-H", "h1,h2"}, "--network-interface"},
           {{"-H", "h1,h2", "--hostfile", "x"}, "--hostfile"},
           {{"--port-range", "9-1"}, "9-1"}}) {
    std::vector<std::string> arguments = {"doctor"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished run = RunProgram(arguments);
    EXPECT_EQ(run.code, 78) << named;
    EXPECT_THAT(run.err, HasSubstr(named));
  }
}

}  // namespace
}  // namespace ringwood
