// The election played from text: tests/server/election/*.txt. A line that begins with a time is an
// answer of etcd to the question before it; the indented line below says what must follow: the
// phase and the next question. "again" starts a new election.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "absl/strings/str_format.h"
#include "paths.h"
#include "server/coordinator/etcd/election.h"
#include "tests/base/at.h"

namespace ringwood {
namespace {

constexpr int64_t kLeaseSeconds = 3;

std::string TextOf(const Ask& ask) {
  if (const auto* grant = std::get_if<ask::Grant>(&ask)) {
    return absl::StrFormat("grant %d s", grant->seconds);
  }
  if (const auto* create = std::get_if<ask::Create>(&ask)) {
    return absl::StrFormat("create on %d", create->lease);
  }
  if (const auto* keep = std::get_if<ask::KeepAlive>(&ask)) {
    return absl::StrFormat("keep %d", keep->lease);
  }
  return "look";
}

// "leading under 12", as the scripts say it.
std::string TextOf(const Election& election) {
  switch (election.phase()) {
    case Election::Phase::kWatching:
      return election.leader().empty() ? "watching" : "watching " + election.leader();
    case Election::Phase::kGranting:
      return "granting";
    case Election::Phase::kCreating:
      return "creating";
    case Election::Phase::kLeading:
      return absl::StrFormat("leading under %d", election.revision());
    case Election::Phase::kDeposed:
      return "deposed: " + election.reason();
  }
  return "";
}

struct Play {
  Election election{kLeaseSeconds};
  double now = 0;

  std::string Look() const {
    const std::string phase = TextOf(election);
    if (election.phase() == Election::Phase::kDeposed) return phase;
    const Question question = election.Next(At(now));
    EXPECT_GE(question.until, question.at);
    EXPECT_EQ(election.Leads(question.until), false) << "an answer may come when it is too late";
    return absl::StrFormat("%s: %s from %.2f until %.2f", phase, TextOf(question.ask),
                           ToSeconds(question.at - At(0)), ToSeconds(question.until - At(0)));
  }

  void Hear(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    const Question question = election.Next(At(now));
    words >> now >> verb;
    std::map<std::string, std::string> values;
    for (std::string word; words >> word;) {
      values[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
    const auto number = [&](const char* key) { return std::stoll(values.at(key)); };
    Answer answer = answer::None{"nobody answered"};
    if (verb == "leader") {
      answer::Leader leader;
      if (!values.empty()) {
        leader.key = LeaderKey{values.at("address"), number("revision"), number("lease")};
      }
      answer = leader;
    } else if (verb == "granted") {
      answer = answer::Granted{number("lease"), number("seconds")};
    } else if (verb == "kept") {
      answer = answer::Kept{number("seconds")};
    } else {
      ASSERT_EQ(verb, "none");
    }
    const TimePoint sent =
        values.count("sent") > 0 ? At(std::stod(values.at("sent"))) : question.at;
    election.On(answer, sent, At(now));
  }
};

TEST(Election, FollowsTheScripts) {
  int scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(RINGWOOD_SOURCE_DIR) +
                                                               "/tests/server/election")) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path());
    std::optional<Play> play(std::in_place);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.empty() || line[0] == '#') continue;
      if (line == "  again") {
        play.emplace();
      } else if (line[0] == ' ') {
        EXPECT_EQ(play->Look(), line.substr(2)) << "line " << number;
      } else {
        ASSERT_NE(play->election.phase(), Election::Phase::kDeposed) << "line " << number;
        play->Hear(line);
      }
    }
    ++scripts;
  }
  EXPECT_EQ(scripts, 8);
}

TEST(Election, ALeaseFollowsFromTheFailureTimeout) {
  EXPECT_EQ(LeaseSeconds(0.5), 3);
  EXPECT_EQ(LeaseSeconds(5), 3);
  EXPECT_EQ(LeaseSeconds(10), 6);
  EXPECT_EQ(LeaseSeconds(60), 36);
}

}  // namespace
}  // namespace ringwood
