#include "client/replan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "plan/strategy/planner.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<TensorSpec> kPlanTable = {{"a", 1000, "dense", 0.01}, {"b", 90000, "auto", 0.01}};

class PlanFile : public testing::Test {
 protected:
  PlanFile() : path_(testing::TempDir() + "plan_" + std::to_string(getpid()) + ".json") {
    PlanInput input;
    input.tensors = kPlanTable;
    input.world = 4;
    plan_ = *MakePlan("hybrid", input);
  }
  ~PlanFile() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  const std::string path_;
  Plan plan_;
};

TEST_F(PlanFile, BringsThePlanBackAsItWas) {
  ASSERT_TRUE(WritePlanFile(ToSave(plan_, kPlanTable, 4, 1), path_).ok());
  const auto saved = ReadPlanFile(path_);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->world(), 4u);
  const auto read = PlanFor(kPlanTable, *saved);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, plan_);
}

TEST_F(PlanFile, AnotherModelsPlanIsRefusedWithTheFirstDifference) {
  const v1::SavedPlan saved = ToSave(plan_, kPlanTable, 4, 1);
  std::vector<TensorSpec> other = kPlanTable;
  other[1].elements = 7;
  EXPECT_THAT(Message(PlanFor(other, saved).status()), HasSubstr("tensor 1 is 'b' (90000"));
  other = kPlanTable;
  other[0].element_bytes = 2;
  EXPECT_THAT(Message(PlanFor(other, saved).status()),
              AllOf(HasSubstr("its tensor 0 is 'a' (1000 elements as float32, "),
                    HasSubstr("here it is 'a' (1000 elements as bfloat16, ")));
  EXPECT_THAT(Message(PlanFor({kPlanTable[0]}, saved).status()),
              HasSubstr("2 tensors, here are 1"));
  v1::SavedPlan newer = saved;
  newer.set_format(9);
  EXPECT_THAT(Message(PlanFor(kPlanTable, newer).status()), HasSubstr("format 9"));
}

TEST_F(PlanFile, WhatIsNoPlanIsAnErrorThatNamesTheFile) {
  EXPECT_EQ(ReadPlanFile(path_).status().code(), StatusCode::kNotFound);
  Write("{\"format\": 1, \"plan\": {\"groups\": 3}}");
  EXPECT_EQ(ReadPlanFile(path_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(ReadPlanFile(path_).status()), HasSubstr(path_));
  const Status unwritten = WritePlanFile({}, "/proc/no/such/folder");
  EXPECT_THAT(Message(unwritten), HasSubstr("/proc/no/such/folder"));
}

TEST_F(PlanFile, AFileThatCannotBeWrittenIsAnErrorWithItsReason) {
  const std::string nowhere = path_ + ".folder/plan.json";
  EXPECT_THAT(Message(WritePlanFile(ToSave(plan_, kPlanTable, 4, 1), nowhere)),
              AllOf(HasSubstr(nowhere), HasSubstr("No such file or directory")));
}

// Root may write /dev/null, too.
TEST_F(PlanFile, TakesThePlaceOfNoDevice) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const Status unwritten = WritePlanFile(ToSave(plan_, kPlanTable, 4, 1), path_);
  EXPECT_THAT(Message(unwritten), HasSubstr("no regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

// A file that somebody edited: the hash in it is no longer that of its content.
TEST_F(PlanFile, AnEditedPlanIsRefused) {
  v1::SavedPlan saved = ToSave(plan_, kPlanTable, 4, 1);
  saved.mutable_plan()->set_fanout(saved.plan().fanout() + 1);
  const Status edited = PlanFor(kPlanTable, saved).status();
  EXPECT_EQ(edited.code(), StatusCode::kInvalidArgument);  // no restart mends it
  EXPECT_THAT(Message(edited), HasSubstr("changed after it was saved"));
}

}  // namespace
}  // namespace ringwood
