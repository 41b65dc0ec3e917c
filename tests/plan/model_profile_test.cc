#include "plan/model/model_profile.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "paths.h"
#include "plan/model/csv.h"
#include "plan/strategy/planner.h"
#include "plan/strategy/profile_input.h"

namespace ringwood {
namespace {

std::string Data(const std::string& file) {
  return std::string(RINGWOOD_SOURCE_DIR) + "/data/" + file;
}

uint64_t ElementsOf(const ModelProfile& profile) {
  uint64_t sum = 0;
  for (const ProfiledTensor& tensor : profile.tensors) sum += tensor.elements;
  return sum;
}

TEST(ModelProfile, PublicTracesHaveTheirModelsParameters) {
  EXPECT_EQ(ElementsOf(*ReadModelProfile(Data("espresso/vgg16.csv"))), 138357544u);
  EXPECT_EQ(ElementsOf(*ReadModelProfile(Data("espresso/resnet50.csv"))), 25557032u);
  EXPECT_EQ(ElementsOf(*ReadModelProfile(Data("espresso/resnet101.csv"))), 44549160u);
}

TEST(ModelProfile, TheBCaffeLogIsReadInBackwardOrder) {
  const auto profile = ReadModelProfile(Data("bcaffe_googlenet/tmp2comm.csv"));
  ASSERT_TRUE(profile.ok()) << Message(profile.status());
  ASSERT_EQ(profile->tensors.size(), 64u);
  EXPECT_EQ(profile->tensors.back().name, "layer0");
  EXPECT_EQ(profile->tensors.back().elements, 9408u + 64u);
  EXPECT_NEAR(profile->tensors.back().measured_seconds, 404e-6, 1e-12);
  EXPECT_NEAR(profile->tensors.back().ready_seconds, 0.2003293, 1e-6);
}

TEST(ModelProfile, OurFormatRoundTripsToTheBit) {
  ModelProfile profile;
  profile.name = "t";
  profile.format = "ringwood";
  profile.forward_seconds = 0.1 / 3;
  profile.tensors = {{"a", 7, 1e-9 / 3, 0.2 / 7, 1e-3 / 9, 0, 0}, {"b", 1, 0.1, 0, 0, 0, 0, 2}};
  const auto back = ParseModelProfile(FormatModelProfile(profile), "t.csv");
  ASSERT_TRUE(back.ok()) << Message(back.status());
  EXPECT_EQ(*back, profile);
}

struct Bad {
  const char* what;
  std::string text;
  const char* expected;
};

TEST(ModelProfile, BadFilesAreErrorsWithFileAndLine) {
  const std::string head = "tensor,numel,ready_time_us\n";
  const std::vector<Bad> cases = {
      {"empty", "", "bad.csv:1:"},
      {"header only", head, "bad.csv:1: the profile has no tensors"},
      {"no columns", "x,y\n1,2\n", "bad.csv:1: columns are missing"},
      {"a field short", head + "a,1\n", "bad.csv:2:"},
      {"negative time", head + "a,1,-1\n", "bad.csv:2: the ready time is negative"},
      {"falls", head + "a,1,5\nb,1,4\n", "bad.csv:3: the ready time falls"},
      {"zero elements", head + "a,1,0\nb,0,1\n", "bad.csv:3: column 'numel'"},
      {"NaN", head + "a,1,nan\n", "bad.csv:2: column 'ready_time_us'"},
      {"infinite", head + "a,1,inf\n", "bad.csv:2:"},
      {"text", head + "a,many,0\n", "bad.csv:2:"},
      {"fraction", head + "a,1.5,0\n", "bad.csv:2:"},
      {"too large", head + "a,1099511627777,0\n", "bad.csv:2:"},
      {"overflows", head + "a,99999999999999999999,0\n", "bad.csv:2:"},
      {"long line", head + std::string(70000, 'a') + ",1,0\n", "bad.csv:2: the line is longer"},
      {"bias of another layer", "numel_aligned,layer_backward_us,comm_us\n1,2,3\n1,4,3\n",
       "bad.csv:3: a bias must"},
      {"far future", head + "a,1,1e308\n", "bad.csv:2: a time of 1e+302 s is above 1e+06 s"},
      {"far future of a layer",
       "numel_aligned,layer_backward_us,comm_us\n1,2,3\n1,2,3\n1,1e300,3\n",
       "bad.csv:4: a time of 1e+294 s is above 1e+06 s"},
      {"far future of layers",
       "numel_aligned,layer_backward_us,comm_us\n1,9e11,3\n1,9e11,3\n1,2e11,3\n",
       "bad.csv:4: a time of 1.1e+06 s is above 1e+06 s"},
      {"long message", "numel_aligned,layer_backward_us,comm_us\n1,2,3\n1,2,1e300\n",
       "bad.csv:3: a time of 1e+294 s is above 1e+06 s"},
      {"far future of forward",
       "name,elements,ready_seconds,forward_seconds\na,1,0,9e5\nb,1,0,2e5\n",
       "bad.csv:3: a time of 1.1e+06 s is above 1e+06 s"},
      {"forward twice",
       "# forward_seconds=1\n# forward_seconds=2\nname,elements,ready_seconds\na,1,0\n",
       "bad.csv:3: forward_seconds comes twice"},
      {"element bytes", "name,elements,ready_seconds,element_bytes\na,1,0,3\n",
       "bad.csv:2: element_bytes is neither 2 nor 4"},
      {"forward", "# forward_seconds=-1\nname,elements,ready_seconds\na,1,0\n", "bad.csv:2:"},
  };
  for (const Bad& bad : cases) {
    const auto profile = ParseModelProfile(bad.text, "bad.csv");
    EXPECT_EQ(profile.status().code(), StatusCode::kInvalidArgument) << bad.what;
    EXPECT_EQ(Message(profile.status()).find(bad.expected), 0u)
        << bad.what << ": " << Message(profile.status());
  }
}

TEST(ModelProfile, TheForwardTimeMayStandAmongOtherComments) {
  for (const char* comments :
       {"# forward_seconds=0.25\n# ResNet\n", "# ResNet\n\n# forward_seconds=0.25\n"}) {
    const auto profile =
        ParseModelProfile(std::string(comments) + "name,elements,ready_seconds\na,1,0\n", "t.csv");
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_EQ(profile->forward_seconds, 0.25);
  }
}

TEST(ModelProfile, OnlyCommentsBeforeTheColumnsAreKeptAndOnlySomeOfThem) {
  std::string comments;
  for (size_t line = 0; line < CsvReader::kMaxComments; ++line) comments += "#\n";
  const std::string names = "name,elements,ready_seconds\na,1,0\n";
  EXPECT_TRUE(ParseModelProfile(comments + names + comments + "#\n", "t.csv").ok());
  EXPECT_EQ(Message(ParseModelProfile(comments + "#\n" + names, "t.csv").status()),
            "t.csv:4097: more than 4096 comments before the column names");
}

TEST(ModelProfile, ATableOfCostsHasWholeBytesAndTimesThatAreMeasured) {
  const std::string file = testing::TempDir() + "/costs-" + std::to_string(getpid()) + ".csv";
  const auto read = [&](const std::string& row) {
    std::ofstream(file) << "bytes,avg_latency_us\n" + row + "\n64,5\n";
    return Message(ReadCostTable(file).status());
  };
  EXPECT_EQ(read("0,1"), "");
  EXPECT_EQ(read("1e-300,1"), file + ":2: 1e-300 is not a size in bytes, at most 2^62");
  EXPECT_EQ(read("1e300,1"), file + ":2: 1e+300 is not a size in bytes, at most 2^62");
  EXPECT_EQ(read("1,1e300"), file + ":2: 1e+300 us is above 1e+06 s");
  std::remove(file.c_str());
}

TEST(ModelProfile, TooManyRowsAreAnErrorWithTheLine) {
  std::string text = "tensor,numel,ready_time_us\n";
  for (uint64_t row = 0; row <= kMaxProfileRows; ++row) text += "a,1,0\n";
  EXPECT_EQ(Message(ParseModelProfile(text, "big.csv").status()).find("big.csv:1048578: more than"),
            0u);
}

TEST(ModelProfile, AMissingFileIsNamed) {
  EXPECT_NE(Message(ReadModelProfile("/nowhere/x.csv").status()).find("/nowhere/x.csv"),
            std::string::npos);
}

// Ends writing as a full disk does.
TEST(ModelProfile, AProfileThatCannotBeWrittenLeavesTheOldOneWhole) {
  const std::string file = testing::TempDir() + "/profile-" + std::to_string(getpid()) + ".csv";
  ModelProfile small, large;
  small.tensors = {{.name = "a", .elements = 1}};
  for (int i = 0; i < 1000; ++i) large.tensors.push_back({.name = "b", .elements = 1});
  ASSERT_TRUE(WriteModelProfile(small, file).ok());
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  const Status written = WriteModelProfile(large, file);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(Message(written), "cannot write " + file + ": File too large");
  const auto kept = ReadModelProfile(file);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(FormatModelProfile(*kept), FormatModelProfile(small));
  EXPECT_FALSE(std::filesystem::exists(file + ".new"));
  std::remove(file.c_str());
}

TEST(ModelProfile, HugeSizesDoNotOverflow) {
  std::string text = "name,elements,ready_seconds\n";
  for (int row = 0; row < 2000; ++row) text += "t,1099511627776,0\n";
  PlanInput input = InputOf(*ParseModelProfile(text, "huge.csv"), 0.01);
  input.world = 4;
  for (const char* planner : {"exact", "single", "fixed"}) {
    const auto plan = MakePlan(planner, input);
    ASSERT_TRUE(plan.ok());
    EXPECT_NEAR(plan->predicted_seconds, 2000 * 4 * 0x1p40 * 1.5 * 8.37e-9, 1e12);
    EXPECT_GT(plan->predicted_seconds, 1e8);
  }
}

}  // namespace
}  // namespace ringwood
