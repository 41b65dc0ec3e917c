// Three servers, etcd and the messages between them as a seeded model: messages are delayed and
// lost, servers stand still, clocks run at different rates, etcd ends leases late. Never do two
// servers lead at once, and when all is well again one does.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "server/coordinator/etcd/election.h"

namespace ringwood {
namespace {

constexpr int kSeeds = 200;
constexpr int kServers = 3;
constexpr int64_t kSimulatedLeaseSeconds = 3;
constexpr double kTick = 0.01;            // of the model, seconds
constexpr double kFaultySeconds = 60;     // messages are lost, servers stop
constexpr double kHealthySeconds = 15;    // and none of it
constexpr double kMostClockError = 0.05;  // below the margin of a lease

// The leader's key and the leases, by etcd's own clock.
class ModelEtcd {
 public:
  explicit ModelEtcd(Random* random) : random_(random) {}

  void Expire(double now) {
    for (auto lease = ends_.begin(); lease != ends_.end();) {
      if (lease->second > now) {
        ++lease;
        continue;
      }
      if (key_ && key_->lease == lease->first) key_.reset();
      lease = ends_.erase(lease);
    }
  }

  Answer Put(const Ask& question, int server, double now) {
    if (const auto* grant = std::get_if<ask::Grant>(&question)) {
      ends_[++newest_] = End(grant->seconds, now);
      return answer::Granted{newest_, grant->seconds};
    }
    if (const auto* keep = std::get_if<ask::KeepAlive>(&question)) {
      if (ends_.count(keep->lease) == 0) return answer::Kept{0};
      ends_[keep->lease] = End(kSimulatedLeaseSeconds, now);
      return answer::Kept{kSimulatedLeaseSeconds};
    }
    if (const auto* create = std::get_if<ask::Create>(&question)) {
      if (ends_.count(create->lease) == 0) return answer::None{"no such lease"};
      if (!key_) key_ = LeaderKey{std::to_string(server), ++revision_, create->lease};
    }
    return answer::Leader{key_};
  }

  int64_t leading() const { return key_ ? key_->revision : 0; }

 private:
  double End(int64_t seconds, double now) {
    return now + static_cast<double>(seconds) + random_->Unit();
  }

  Random* const random_;
  std::optional<LeaderKey> key_;
  std::map<int64_t, double> ends_;  // of each lease
  int64_t newest_ = 0;
  int64_t revision_ = 0;
};

struct ModelServer {
  std::unique_ptr<Election> election = std::make_unique<Election>(kSimulatedLeaseSeconds);
  double rate = 1;            // of its clock
  double stands_until = 0;    // it does nothing
  double deposed_until = -1;  // then it is started again
  uint64_t asked = 0;         // number of the question in flight; 0: none
  Question question;
  TimePoint sent;

  TimePoint Clock(double now) const { return TimePoint() + Seconds(1000 + now * rate); }
  bool Leads(double now) const { return election->Leads(Clock(now)); }
};

struct Packet {
  uint64_t number = 0;
  int server = 0;
  Ask ask;
  std::optional<Answer> answer;  // on its way back
};

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed), etcd_(&random_), servers_(kServers) {
    for (ModelServer& server : servers_) {
      server.rate = 1 + kMostClockError * (2 * random_.Unit() - 1);
    }
  }

  // False: two lead, or one that etcd does not know as the leader.
  bool Run(double until, bool faults) {
    for (; now_ < until; now_ += kTick) {
      etcd_.Expire(now_);
      Deliver(faults);
      int leaders = 0;
      for (int i = 0; i < kServers; ++i) {
        Act(i, faults);
        if (!servers_[i].Leads(now_)) continue;
        ++leaders;
        if (servers_[i].election->revision() != etcd_.leading()) return false;
      }
      led_ += leaders;
      if (leaders > 1) return false;
    }
    return true;
  }

  int Leaders() const {
    int leaders = 0;
    for (const ModelServer& server : servers_) leaders += server.Leads(now_) ? 1 : 0;
    return leaders;
  }
  int64_t led() const { return led_; }  // ticks

 private:
  // A message that is to arrive some time, or never. It may be overtaken.
  void Send(Packet message, bool faults) {
    if (faults && random_.Below(20) == 0) return;
    const bool slow = faults && random_.Below(10) == 0;
    network_.emplace(now_ + random_.Unit() * (slow ? 6 : 0.05), std::move(message));
  }

  void Deliver(bool faults) {
    while (!network_.empty() && network_.begin()->first <= now_) {
      Packet message = network_.extract(network_.begin()).mapped();
      ModelServer& server = servers_[message.server];
      if (!message.answer) {
        message.answer = etcd_.Put(message.ask, message.server, now_);
        Send(std::move(message), faults);
      } else if (server.asked == message.number && now_ >= server.stands_until) {
        Answered(&server, *message.answer);
      }
    }
  }

  void Answered(ModelServer* server, const Answer& answer) {
    server->asked = 0;
    server->election->On(answer, server->sent, server->Clock(now_));
  }

  void Act(int index, bool faults) {
    ModelServer& server = servers_[index];
    if (now_ < server.stands_until) return;
    if (faults && random_.Below(1000) == 0) server.stands_until = now_ + 5 * random_.Unit();
    if (server.election->phase() == Election::Phase::kDeposed) {
      if (server.deposed_until < 0) server.deposed_until = now_ + random_.Unit();
      if (now_ < server.deposed_until) return;
      server.election = std::make_unique<Election>(kSimulatedLeaseSeconds);
      server.deposed_until = -1;
      server.asked = 0;
    }
    const TimePoint clock = server.Clock(now_);
    if (server.asked != 0) {
      if (clock >= server.question.until) Answered(&server, answer::None{"nobody answered"});
      return;
    }
    server.question = server.election->Next(clock);
    if (clock < server.question.at) return;
    server.asked = ++numbers_;
    server.sent = clock;
    Send({numbers_, index, server.question.ask, std::nullopt}, faults);
  }

  Random random_;
  double now_ = 0;
  ModelEtcd etcd_;
  std::vector<ModelServer> servers_;
  std::multimap<double, Packet> network_;  // by the time of arrival
  uint64_t numbers_ = 0;
  int64_t led_ = 0;
};

TEST(Election, NeverDoTwoLeadAndOneLeadsAgain) {
  double led = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Model model(seed);
    ASSERT_TRUE(model.Run(kFaultySeconds, true)) << "seed " << seed;
    led += static_cast<double>(model.led()) * kTick;
    ASSERT_TRUE(model.Run(kFaultySeconds + kHealthySeconds, false)) << "seed " << seed;
    EXPECT_EQ(model.Leaders(), 1) << "seed " << seed;
  }
  EXPECT_GT(led, kSeeds * kFaultySeconds / 10) << "the model hardly ever lets a server lead";
}

}  // namespace
}  // namespace ringwood
