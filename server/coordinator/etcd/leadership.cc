#include "server/coordinator/etcd/leadership.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr double kResignSeconds = 1;  // for the last call; without it the lease ends by itself

LeaderKey LeaderOf(const mvccpb::KeyValue& kv) {
  return {kv.value(), kv.create_revision(), kv.lease()};
}

}  // namespace

Leadership::Leadership(Options options)
    : options_(std::move(options)),
      client_(options_.etcd),
      election_(options_.lease_seconds),
      leads_(std::make_unique<Loop>("rw-leads")),
      ask_(std::make_unique<Loop>("rw-etcd")) {
  ask_->Post([this, loop = ask_.get()] { Step(loop); });
}

Leadership::~Leadership() {
  Close();
  if (election_.lease() == 0) return;
  EtcdClient client(options_.etcd);
  const Status resigned = client.Revoke(election_.lease(), Now() + Seconds(kResignSeconds));
  if (!resigned.ok()) Log(LogLevel::kDebug, Message(resigned));
}

void Leadership::Close() {
  closing_ = true;
  client_.Cancel();
  ask_.reset();
  leads_.reset();
}

// Puts the next question when its time has come, and so on until deposed. On `loop`, which is ask_:
// that is null already while its end waits for a question.
void Leadership::Step(Loop* loop) {
  const Question question = election_.Next(Now());
  loop->After(question.at - Now(), [this, loop, question] {
    const Election::Phase before = election_.phase();
    const TimePoint sent = Now();
    const StatusOr<Answer> answer = Put(question);
    if (closing_) return;
    met_ |= answer.ok();
    if (!met_) {
      const Status why = WhyRefused(answer.status());
      if (closing_) return;
      if (!why.ok()) return options_.refused(why);
    }
    election_.On(answer.ok() ? *answer : answer::None{Message(answer.status())}, sent, Now());
    Follow(before, answer.status());
    if (election_.phase() != Election::Phase::kDeposed) Step(loop);
  });
}

// What etcd itself refuses, or what is wrong with the connections; OK: it is not there yet.
Status Leadership::WhyRefused(const Status& no_answer) {
  if (no_answer.code() == StatusCode::kUnavailable) return client_.WhyRefused();
  return Denied(
      Message(no_answer) +
      "; where etcd has users (`etcdctl auth enable`) this server is the one that the "
      "common name of its certificate in --etcd-tls says, and needs a role that reads and "
      "writes " +
      options_.etcd.prefix + "/");
}

StatusOr<Answer> Leadership::Put(const Question& question) {
  if (std::holds_alternative<ask::Look>(question.ask)) {
    RW_ASSIGN_OR_RETURN(const auto kv, client_.Get(options_.etcd.leader_key(), question.until));
    return kv ? answer::Leader{LeaderOf(*kv)} : answer::Leader{};
  }
  if (const auto* grant = std::get_if<ask::Grant>(&question.ask)) {
    RW_ASSIGN_OR_RETURN(const EtcdLease lease, client_.Grant(grant->seconds, question.until));
    return answer::Granted{lease.id, lease.seconds};
  }
  if (const auto* create = std::get_if<ask::Create>(&question.ask)) {
    return Create(create->lease, question.until);
  }
  const auto& keep = std::get<ask::KeepAlive>(question.ask);
  RW_ASSIGN_OR_RETURN(const int64_t seconds, client_.KeepAlive(keep.lease, question.until));
  return answer::Kept{seconds};
}

StatusOr<Answer> Leadership::Create(int64_t lease, TimePoint until) {
  const std::string key = options_.etcd.leader_key();
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare* absent = request.add_compare();
  absent->set_target(etcdserverpb::Compare::CREATE);
  absent->set_key(key);
  absent->set_create_revision(0);
  etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(options_.address);
  put->set_lease(lease);
  request.add_failure()->mutable_request_range()->set_key(key);
  RW_ASSIGN_OR_RETURN(const auto response, client_.Txn(request, until));
  if (response.succeeded()) {
    return answer::Leader{LeaderKey{options_.address, response.header().revision(), lease}};
  }
  const auto other = ReadBy(response.responses(0));
  return other ? answer::Leader{LeaderOf(*other)} : answer::Leader{};
}

// Tells callbacks and log what has changed.
void Leadership::Follow(Election::Phase before, const Status& answered) {
  const std::string& prefix = options_.etcd.prefix;
  switch (election_.phase()) {
    case Election::Phase::kLeading:
      if (before == Election::Phase::kLeading) return;
      Log(LogLevel::kInfo, absl::StrFormat("leads %s from here on, under revision %d", prefix,
                                           election_.revision()));
      leads_->PostReserved([this, revision = election_.revision()] { options_.leads(revision); });
      return;
    case Election::Phase::kDeposed:
      options_.deposed(Unavailable(absl::StrFormat(
          "this server no longer leads %s: %s; it stops, so that its members turn to the next "
          "leader: start it again, and it stands by",
          prefix, election_.reason())));
      return;
    default:
      if (!answered.ok()) {
        if (said_ == "no answer") return;
        const Status why = client_.WhyRefused();
        SayOnce(LogLevel::kWarning, "no answer",
                "stands by, but " + Message(why.ok() ? answered : why));
      } else if (!election_.leader().empty()) {
        SayOnce(LogLevel::kInfo, election_.leader(),
                absl::StrFormat("stands by: %s leads %s", election_.leader(), prefix));
      }
  }
}

void Leadership::SayOnce(LogLevel level, const std::string& state, const std::string& line) {
  if (state == said_) return;
  said_ = state;
  Log(level, line);
}

}  // namespace ringwood
