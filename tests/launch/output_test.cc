#include "launch/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/table.h"
#include "launch/process.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;

TEST(LineCutter, LinesAreTheSameHoweverTheyArrive) {
  const std::string text = "one\ntwo\r\n 10%\r 20%\rdone\nrest";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    LineCutter cutter;
    std::vector<std::string> lines = cutter.Feed(text.substr(0, cut));
    for (const std::string& line : cutter.Feed(text.substr(cut))) lines.push_back(line);
    EXPECT_THAT(lines, ElementsAre("one", "two", "done")) << cut;
    EXPECT_EQ(cutter.Rest(), "rest");
    EXPECT_EQ(cutter.Rest(), "");
  }
}

TEST(LineCutter, AnEndlessLineIsCutAndAnEndlessBarIsNot) {
  LineCutter cutter;
  size_t bytes = 0;
  for (int i = 0; i < 100; ++i) {
    for (const std::string& line : cutter.Feed(std::string(1000, 'x'))) bytes += line.size();
  }
  EXPECT_GT(bytes, 100000 - 2 * LineCutter::kMaxLine);
  LineCutter bar;
  for (int i = 0; i < 10000; ++i)
    EXPECT_TRUE(bar.Feed("\r" + std::to_string(i) + " of 10000").empty());
  EXPECT_THAT(bar.Feed("\n"), ElementsAre("9999 of 10000"));
}

class OutputTest : public ::testing::Test {
 protected:
  OutputTest() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    read_ = ends[0];
    write_ = ends[1];
    output_ = std::make_unique<Output>(OutputOptions{write_, write_, ""});
    EXPECT_TRUE(output_->Open({{"", "rank0"}, {"[1] ", "rank1"}}).ok());
  }
  ~OutputTest() override {
    ::close(read_);
    ::close(write_);
  }
  std::string Seen() {
    output_->Flush();
    bool end = false;
    return ReadSome(read_, 1 << 20, &end);
  }
  int read_, write_;
  std::unique_ptr<Output> output_;
};

TEST_F(OutputTest, RankZeroPassesAsItIsAndOthersByLine) {
  output_->Take(0, false, "10%\r20%");
  EXPECT_EQ(Seen(), "10%\r20%");
  output_->Take(1, false, "lo");
  EXPECT_EQ(Seen(), "");
  output_->Take(1, false, "ss\n");
  EXPECT_EQ(Seen(), "\n[1] loss\n") << "the bar's line is left first";
}

TEST_F(OutputTest, ALineOfRankZeroThatAnotherEndedIsNotEndedTwice) {
  output_->Take(0, false, "loss 0.5");
  output_->Take(1, true, "a warning\n");  // on standard error, which is the same pipe
  output_->Take(0, false, "\n");
  output_->Take(0, false, "\n 10%");
  output_->Say("told");
  output_->Take(0, false, "\r 20%\n");
  EXPECT_EQ(Seen(), "loss 0.5\n[1] a warning\n\n 10%\ntold\n\r 20%\n");
}

TEST_F(OutputTest, ALastLineWithoutNewlineIsNotLost) {
  output_->Take(1, true, "Traceback");
  output_->Close(1);
  EXPECT_EQ(Seen(), "[1] Traceback\n");
  EXPECT_THAT(output_->Tail(1), ElementsAre("Traceback"));
}

TEST_F(OutputTest, TheTailKeepsTheLastLines) {
  for (int i = 0; i < 1000; ++i) output_->Take(0, i % 2 == 0, std::to_string(i) + "\n");
  const auto tail = output_->Tail(0);
  EXPECT_EQ(tail.size(), Output::kTailLines);
  EXPECT_EQ(tail.back(), "999");
}

TEST_F(OutputTest, ABlockedReaderFillsItAndFlushNeverWaits) {
  while (!output_->Full()) {
    output_->Take(0, false, std::string(10000, 'x'));
    output_->Flush();
  }
  EXPECT_TRUE(output_->Pending());
  output_->Drop();
  EXPECT_FALSE(output_->Full());
}

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(FormatTable({{"STEP", "STATE"}, {"5", "complete"}, {"12345", "incomplete"}}),
            "STEP   STATE\n    5  complete\n12345  incomplete\n");
}

}  // namespace
}  // namespace ringwood
