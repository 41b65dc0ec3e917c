#include "timeline/flight_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

namespace ringwood {
namespace {

using ::testing::HasSubstr;

class Flight : public ::testing::Test {
 protected:
  ~Flight() override { std::remove(file_.c_str()); }
  const std::string file_ =
      ::testing::TempDir() + "ringwood-" + std::to_string(getpid()) + ".flight";
};

FlightHeader Header() {
  FlightHeader header;
  header.job = 5;
  header.epoch = 2;
  header.rank = 1;
  header.world = 4;
  header.host = "h1";
  return header;
}

TimelineEvent Event(uint64_t round) {
  return {static_cast<int64_t>(round * 10), round, round + 1, 3, TimelineKind::kReady};
}

TEST_F(Flight, WhatWasWrittenIsRead) {
  auto record = FlightRecord::Create(file_);
  ASSERT_TRUE(record.ok()) << record.status();
  record->Begin(Header());
  for (uint64_t round = 0; round < 3; ++round) record->Write(Event(round));
  record->SetFailure("rank 2 died");
  record->SetFailure("a second one");
  const auto contents = ReadFlight(file_);  // while it is open
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->header.rank, 1u);
  EXPECT_EQ(contents->header.host, "h1");
  EXPECT_EQ(contents->header.process, getpid());
  EXPECT_EQ(contents->header.failure, "rank 2 died");
  EXPECT_EQ(contents->events, (std::vector<TimelineEvent>{Event(0), Event(1), Event(2)}));
  EXPECT_EQ(contents->lost, 0u);
  EXPECT_THAT(ToText(*contents), HasSubstr("rank 1 of 4 on host h1"));
  EXPECT_THAT(ToText(*contents), HasSubstr("failed: rank 2 died"));
}

TEST_F(Flight, TheLastEventsStay) {
  auto record = FlightRecord::Create(file_);
  ASSERT_TRUE(record.ok());
  for (uint64_t round = 0; round < kFlightEvents + 10; ++round) record->Write(Event(round));
  const auto contents = ReadFlight(file_);
  ASSERT_TRUE(contents.ok());
  ASSERT_EQ(contents->events.size(), kFlightEvents);
  EXPECT_EQ(contents->events.front(), Event(10));
  EXPECT_EQ(contents->events.back(), Event(kFlightEvents + 9));
  EXPECT_EQ(contents->lost, 10u);
}

TEST_F(Flight, ManyThreadsWriteWithoutLosingAnEvent) {
  auto record = FlightRecord::Create(file_);
  ASSERT_TRUE(record.ok());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&record, t] {
      for (uint64_t i = 0; i < 1000; ++i) record->Write(Event(t * 1000 + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto contents = ReadFlight(file_);
  ASSERT_TRUE(contents.ok());
  std::vector<bool> seen(4000);
  for (const TimelineEvent& event : contents->events) {
    EXPECT_EQ(event, Event(event.round));  // whole
    seen[event.round] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 4000);
}

TEST_F(Flight, SurvivesKillNine) {
  const pid_t child = fork();
  if (child == 0) {
    auto record = FlightRecord::Create(file_);
    if (!record.ok()) _exit(1);
    record->Begin(Header());
    for (uint64_t round = 0; round < 100; ++round) record->Write(Event(round));
    kill(getpid(), SIGKILL);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
  const auto contents = ReadFlight(file_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->header.process, child);
  EXPECT_EQ(contents->events.size(), 100u);
  EXPECT_EQ(contents->events.back(), Event(99));
}

TEST_F(Flight, ANewRecordInItsPlaceLeavesTheOldOneToWhoHasIt) {
  auto old = FlightRecord::Create(file_);
  ASSERT_TRUE(old.ok()) << old.status();
  old->Begin(Header());
  const std::string kept = file_ + ".kept";
  std::filesystem::create_hard_link(file_, kept);
  auto fresh = FlightRecord::Create(file_);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  old->Write(Event(7));
  const auto before = ReadFlight(kept), now = ReadFlight(file_);
  std::filesystem::remove(kept);
  ASSERT_TRUE(before.ok() && now.ok()) << before.status() << now.status();
  EXPECT_EQ(before->header.host, "h1");
  EXPECT_EQ(before->events, (std::vector<TimelineEvent>{Event(7)}));
  EXPECT_EQ(now->header.host, "");
  EXPECT_TRUE(now->events.empty());
}

TEST_F(Flight, ThePlaceMayBeALinkButNoPipe) {
  const std::string link = file_ + ".link";
  std::filesystem::create_symlink(file_, link);
  EXPECT_TRUE(FlightRecord::Create(link).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(ReadFlight(file_).ok());
  std::filesystem::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(FlightRecord::Create(link).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_fifo(file_));
  std::filesystem::remove(link);
}

TEST_F(Flight, ASlotThatWasCutInTheMiddleIsLeftOut) {
  {
    auto record = FlightRecord::Create(file_);
    ASSERT_TRUE(record.ok());
    for (uint64_t round = 0; round < 3; ++round) record->Write(Event(round));
  }
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 48);  // the sequence number of the second slot
  file.write("\0\0\0\0\0\0\0\0", 8);
  file.close();
  const auto contents = ReadFlight(file_);
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->events, (std::vector<TimelineEvent>{Event(0), Event(2)}));
  EXPECT_EQ(contents->lost, 1u);
}

TEST_F(Flight, DamageIsToldAndNotReadAsEvents) {
  {
    auto record = FlightRecord::Create(file_);
    ASSERT_TRUE(record.ok());
    record->Begin(Header());
    for (uint64_t round = 0; round < 3; ++round) record->Write(Event(round));
  }
  const auto damage = [&](std::streamoff at) {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put('\x5a');
  };
  damage(4096 + 48 + 16);  // the round of the second slot
  const auto contents = ReadFlight(file_);
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->events, (std::vector<TimelineEvent>{Event(0), Event(2)}));
  EXPECT_EQ(contents->damaged, 1u);
  EXPECT_THAT(ToText(*contents), HasSubstr("DAMAGED: 1 events"));
  damage(8 + 8 + 8);  // the rank
  EXPECT_THAT(Message(ReadFlight(file_).status()), HasSubstr("damaged"));
}

TEST_F(Flight, APlaceThatCannotBeIsTheUsersToMend) {
  for (const char* place : {"/nonexistent/directory/file", "/", ""}) {
    EXPECT_EQ(FlightRecord::Create(place).status().code(), StatusCode::kInvalidArgument) << place;
  }
}

TEST_F(Flight, OtherFilesAreRefused) {
  EXPECT_FALSE(ReadFlight(file_).ok());
  std::ofstream(file_) << "short";
  EXPECT_THAT(Message(ReadFlight(file_).status()), HasSubstr("are not a flight record's"));
  std::ofstream(file_) << std::string(4096 + 48 * kFlightEvents, 'x');
  EXPECT_THAT(Message(ReadFlight(file_).status()), HasSubstr("does not begin like"));
  EXPECT_FALSE(FlightRecord::Create("/nonexistent/directory/file").ok());
}

}  // namespace
}  // namespace ringwood
