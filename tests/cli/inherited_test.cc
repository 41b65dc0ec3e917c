// What a program has from the one that started it: standard streams, signals, a directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// Of the program with these words of a shell behind it, started by another one.
int CodeOfShell(const std::string& words, const std::string& before = "") {
  const int state =
      std::system(("timeout -s KILL 60 " + before + " " + kProgram + " " + words).c_str());
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

TEST(StandardStreams, ACommandWhoseOutputIsNotWrittenHasFailed) {
  TemporaryDirectory directory;
  const std::string to = " > /dev/full 2> " + directory.path() + "/err";
  for (const char* command : {"reference", "--version", "run --help", "token new"}) {
    EXPECT_EQ(CodeOfShell(command + to), 78) << command;
    EXPECT_THAT(directory.Read("err"), HasSubstr("standard output cannot be written"));
  }
}

TEST(StandardStreams, ClosedOnesAreNotGivenToFilesAndSockets) {
  TemporaryDirectory directory;
  const std::string look = directory.Write(
      "look", "#!/bin/sh\nreadlink /proc/$PPID/fd/0 /proc/$PPID/fd/1 /proc/$PPID/fd/2 > $1\n",
      true);
  EXPECT_EQ(CodeOfShell("server --store " + directory.path() + "/store -- " + look + " " +
                        directory.path() + "/seen <&- >&- 2>&-"),
            0);
  EXPECT_EQ(directory.Read("seen"), "/dev/null\n/dev/null\n/dev/null\n");
}

// Some daemons ignore it, and what they start does then: its children leave no ending.
TEST(Inherited, AnIgnoredEndOfChildrenIsHeardAllTheSame) {
  const std::string start = "env --ignore-signal=CHLD";
  EXPECT_EQ(CodeOfShell("run --no-server -np 2 -- sh -c 'exit 3' 2>/dev/null", start), 3);
  EXPECT_EQ(CodeOfShell("server -- sh -c 'exit 4' >/dev/null", start), 4);
}

TEST(Inherited, ATemporaryDirectoryWithoutANameIsNone) {
  const Finished run = RunProgram({"run", "-np", "1", "--", "true"}, {{"TMPDIR", ""}});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("checkpoints in /tmp/ringwood-"));
}

}  // namespace
}  // namespace ringwood
