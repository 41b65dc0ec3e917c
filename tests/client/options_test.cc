#include "client/options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>

#include "client/options/option_table.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

EnvironmentLookup Given(std::map<std::string, std::string> variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

SessionOptions Good() {
  SessionOptions options;
  options.coordinator = "127.0.0.1:7000";
  options.rank = 0;
  options.world = 2;
  return options;
}

TEST(Options, ComeFromTheLaunchersEnvironment) {
  const auto options = OptionsFromEnvironment(Given({{"RANK", "3"},
                                                     {"WORLD_SIZE", "8"},
                                                     {"RINGWOOD_COORDINATOR", "127.0.0.1:7000"},
                                                     {"RINGWOOD_HOST", "h1"},
                                                     {"RINGWOOD_RESUME", "1"},
                                                     {"RINGWOOD_PLANNER", "wfbp"},
                                                     {"RINGWOOD_WIRE", "bf16"},
                                                     {"RINGWOOD_SPARSE_CODEC", "rice/int8"},
                                                     {"RINGWOOD_SPARSE_MERGE", "exact"},
                                                     {"RINGWOOD_SPARSE_METHOD", "threshold"},
                                                     {"RINGWOOD_SPARSE_CHUNK", "4096"},
                                                     {"RINGWOOD_TRANSPORT", "grpc"},
                                                     {"SLURM_PROCID", "5"}}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->rank, 3);
  EXPECT_EQ(options->world, 8);
  EXPECT_EQ(options->coordinator, "127.0.0.1:7000");
  EXPECT_EQ(options->host, "h1");
  EXPECT_EQ(options->planner, "wfbp");
  EXPECT_EQ(options->wire, "bf16");
  EXPECT_EQ(options->sparse_codec, "rice/int8");
  EXPECT_EQ(options->sparse_merge, "exact");
  EXPECT_EQ(options->sparse_method, "threshold");
  EXPECT_EQ(options->sparse_chunk, 4096);
  EXPECT_EQ(options->transport, "grpc");
  EXPECT_EQ(options->resume, Resume::kRequired);
  EXPECT_FALSE(options->trusted_fabric);
}

TEST(Options, FallBackToSlurmAndOpenMpi) {
  const auto slurm = OptionsFromEnvironment(Given({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}}));
  ASSERT_TRUE(slurm.ok());
  EXPECT_EQ(slurm->rank, 1);
  EXPECT_EQ(slurm->world, 4);
  const auto mpi =
      OptionsFromEnvironment(Given({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}}));
  ASSERT_TRUE(mpi.ok());
  EXPECT_EQ(mpi->rank, 2);
  EXPECT_EQ(mpi->world, 3);
}

TEST(Options, OfMpirunWithinAJobOfSlurmAreMpiruns) {
  const auto options = OptionsFromEnvironment(Given({{"SLURM_PROCID", "0"},
                                                     {"SLURM_NTASKS", "2"},
                                                     {"OMPI_COMM_WORLD_RANK", "5"},
                                                     {"OMPI_COMM_WORLD_SIZE", "8"}}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->rank, 5);
  EXPECT_EQ(options->world, 8);
}

TEST(Options, NameTheVariableThatIsMissingOrWrong) {
  EXPECT_THAT(Message(OptionsFromEnvironment(Given({})).status()), HasSubstr("RANK is not set"));
  EXPECT_THAT(Message(OptionsFromEnvironment(Given({{"RANK", "0"}})).status()),
              HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(
      Message(OptionsFromEnvironment(Given({{"RANK", "zero"}, {"WORLD_SIZE", "2"}})).status()),
      HasSubstr("RANK='zero'"));
  EXPECT_THAT(Message(OptionsFromEnvironment(
                          Given({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"RINGWOOD_MOMENTUM", "x"}}))
                          .status()),
              HasSubstr("RINGWOOD_MOMENTUM='x'"));
}

TEST(Options, ASwitchIsOnOrOffAndAnythingElseIsRefused) {
  const auto read = [](const char* name, const char* value) {
    return OptionsFromEnvironment(Given({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {name, value}}));
  };
  for (const char* off : {"0", "off", "False", "no"}) {
    EXPECT_FALSE(read("RINGWOOD_TRUSTED_FABRIC", off)->trusted_fabric) << off;
    EXPECT_EQ(read("RINGWOOD_RESUME", off)->resume, Resume::kNo) << off;
  }
  for (const char* on : {"1", "on", "True", "yes"}) {
    EXPECT_TRUE(read("RINGWOOD_TRUSTED_FABRIC", on)->trusted_fabric) << on;
    EXPECT_EQ(read("RINGWOOD_RESUME", on)->resume, Resume::kRequired) << on;
  }
  EXPECT_THAT(Message(read("RINGWOOD_TRUSTED_FABRIC", "maybe").status()),
              HasSubstr("RINGWOOD_TRUSTED_FABRIC='maybe' is not 1 or 0"));
  EXPECT_THAT(Message(read("RINGWOOD_RESUME", "newest").status()),
              HasSubstr("RINGWOOD_RESUME='newest' is not 1, auto or 0"));
}

// The program that loads the library may have chosen one.
TEST(Options, NumbersAreReadAlikeInALocaleWithAComma) {
  const std::string folder = ::testing::TempDir() + "locales-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const std::string make = "localedef -i de_DE -f UTF-8 " + folder + "/de_DE.UTF-8 2>/dev/null";
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "no localedef";
  setenv("LOCPATH", folder.c_str(), 1);
  const bool chosen = std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr;
  SessionOptions options;
  const Status read = ReadOption(OptionNamed("sparse_keep"), "", "0.5", &options);
  std::setlocale(LC_NUMERIC, "C");
  unsetenv("LOCPATH");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(options.sparse_keep, 0.5);
}

TEST(Options, WhatIsWrongIsFoundBeforeTheNetworkIsTouched) {
  EXPECT_TRUE(Check(Good()).ok());
  SessionOptions coarse = Good();
  coarse.sparse_codec = "rice/int3";
  EXPECT_NE(Message(Check(coarse)).find("rice/int3"), std::string::npos);
  coarse = Good();
  coarse.sparse_merge = "most";
  EXPECT_NE(Message(Check(coarse)).find("most"), std::string::npos);
  coarse = Good();
  coarse.sparse_method = "random";
  EXPECT_NE(Message(Check(coarse)).find("random"), std::string::npos);
  coarse.sparse_method = "gaussian";
  EXPECT_TRUE(Check(coarse).ok());
  coarse.sparse_chunk = 4096;
  EXPECT_NE(Message(Check(coarse)).find("exact"), std::string::npos);
  SessionOptions options = Good();
  options.rank = -1;
  EXPECT_EQ(Check(options).code(), StatusCode::kInvalidArgument);
  options.rank = 2;  // a spare of an elastic job, if the coordinator's is one
  EXPECT_TRUE(Check(options).ok());
  options = Good();
  options.coordinator = "nowhere";
  EXPECT_EQ(Check(options).code(), StatusCode::kInvalidArgument);
  options = Good();
  options.momentum = 1;
  EXPECT_EQ(Check(options).code(), StatusCode::kInvalidArgument);
}

// What cannot be a number of the kind, of every number that there is.
TEST(Options, NumbersHaveRangesAndNanIsInNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto refused = [](auto field, auto value) {
    SessionOptions options = Good();
    options.*field = value;
    return Check(options).code() == StatusCode::kInvalidArgument;
  };
  for (double value : {nan, -0.1, 1.0, infinite}) {
    EXPECT_TRUE(refused(&SessionOptions::momentum, value)) << value;
  }
  for (double value : {nan, -0.1, infinite}) {
    EXPECT_TRUE(refused(&SessionOptions::clip_norm, value)) << value;
  }
  for (double value : {nan, -1.0, 1e300, infinite}) {
    EXPECT_TRUE(refused(&SessionOptions::sparse_keep, value)) << value;
  }
  for (double value : {nan, 0.0, -1.0, 1e300, infinite}) {
    EXPECT_TRUE(refused(&SessionOptions::join_timeout_seconds, value)) << value;
  }
  for (int value : {-1, 3}) EXPECT_TRUE(refused(&SessionOptions::sparse_chunk, value)) << value;
  EXPECT_TRUE(refused(&SessionOptions::warmup_steps, -1));
  EXPECT_FALSE(refused(&SessionOptions::sparse_keep, 2.0));
  for (double value : {nan, 0.0, 1.1}) EXPECT_FALSE(CheckRange("density", value).ok()) << value;
  EXPECT_TRUE(CheckRange("density", 1).ok());
  EXPECT_FALSE(CheckRange("weight", nan).ok());
  EXPECT_TRUE(CheckRange("weight", 0).ok());
}

TEST(Options, AVariableOutOfItsRangeIsNamed) {
  const auto message = [](const std::string& name, const std::string& value) {
    return Message(
        OptionsFromEnvironment(Given({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {name, value}}))
            .status());
  };
  EXPECT_THAT(message("RINGWOOD_MOMENTUM", "nan"), HasSubstr("RINGWOOD_MOMENTUM = nan"));
  EXPECT_THAT(message("RINGWOOD_SPARSE_KEEP", "1e300"), HasSubstr("RINGWOOD_SPARSE_KEEP = 1e+300"));
  EXPECT_THAT(message("RINGWOOD_JOIN_TIMEOUT", "-1"), HasSubstr("at most a week"));
  EXPECT_THAT(message("RINGWOOD_WARMUP_STEPS", "many"), HasSubstr("'many' is not a whole number"));
}

TEST(Options, WordsThatNobodyKnowsAreNamed) {
  SessionOptions options = Good();
  options.log_level = "loud";
  EXPECT_THAT(Message(Check(options)), HasSubstr("'loud' is none of debug, info"));
  options = Good();
  options.planner = "crystal ball";
  EXPECT_THAT(Message(Check(options)), HasSubstr("there is no planner 'crystal ball'"));
}

TEST(Options, ACoordinatorOffLoopbackNeedsACertificateOrATrustedFabric) {
  SessionOptions options = Good();
  options.coordinator = "10.1.2.3:7000";
  EXPECT_EQ(Check(options).code(), StatusCode::kPermissionDenied);
  options.trusted_fabric = true;
  EXPECT_TRUE(Check(options).ok());
  options.trusted_fabric = false;
  options.identity = "/etc/ringwood/rank-0";
  EXPECT_TRUE(Check(options).ok());
}

}  // namespace
}  // namespace ringwood
