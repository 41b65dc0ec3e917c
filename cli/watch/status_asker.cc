#include "cli/watch/status_asker.h"

#include <grpcpp/grpcpp.h>

#include <fstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "launch/network.h"
#include "proto/access.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "proto/token_file.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "ringwood/v1/deployment.grpc.pb.h"

namespace ringwood {
namespace {

constexpr double kAgainSeconds = 0.1;  // a deployment opens a job in about so long

std::string FirstWordOf(const std::string& name) {
  std::ifstream file(name);
  std::string word;
  file >> word;
  return word;
}

StatusOr<std::string> CoordinatorOf(const StatusQuestion& question) {
  if (!question.coordinator.empty()) return question.coordinator;
  if (question.store.empty()) {
    return Invalid("which job? Give --coordinator HOST:PORT, or --store with its checkpoints");
  }
  const std::string address = FirstWordOf(AddressFile(question.store));
  if (!address.empty()) return address;
  return NotFound("--store: no server runs on " + question.store + ", or it is another user's");
}

StatusOr<std::string> TokenOf(const Environment& environment, const StatusQuestion& question) {
  if (question.store.empty()) return FindToken(environment, question.token_file);
  const std::string token = FirstWordOf(TokenFile(question.store));
  if (!token.empty() || !FirstWordOf(AddressFile(question.store)).empty()) return token;
  return NotFound("--store: no server with a token runs on " + question.store +
                  ", or it is another user's");
}

}  // namespace

struct StatusAsker::Line {
  Access access;
  std::unique_ptr<v1::Coordinator::Stub> stub;
  std::unique_ptr<v1::Deployment::Stub> deployment;
};

StatusAsker::StatusAsker(StatusQuestion question, std::unique_ptr<Line> line)
    : question_(std::move(question)), line_(std::move(line)) {}
StatusAsker::~StatusAsker() = default;

StatusOr<std::unique_ptr<StatusAsker>> StatusAsker::Open(const Environment& environment,
                                                         const StatusQuestion& question) {
  StatusQuestion complete = question;
  RW_ASSIGN_OR_RETURN(complete.coordinator, CoordinatorOf(question));
  RW_RETURN_IF_ERROR(ParseEndpoint(complete.coordinator).status());
  RW_ASSIGN_OR_RETURN(const std::string token, TokenOf(environment, question));
  if (complete.identity.empty() && !question.store.empty()) {
    complete.identity = KeptIdentity(question.store);
  }
  RW_ASSIGN_OR_RETURN(const auto credentials, OpenCredentials(complete.identity));
  auto line = std::make_unique<Line>();
  line->access = Access(token, credentials);
  const auto channel = OpenChannel(complete.coordinator, OwnConnection().Arguments(), line->access);
  line->stub = v1::Coordinator::NewStub(channel);
  line->deployment = v1::Deployment::NewStub(channel);
  return std::unique_ptr<StatusAsker>(new StatusAsker(std::move(complete), std::move(line)));
}

StatusOr<v1::StatusResponse> StatusAsker::Ask() {
  const TimePoint end = Now() + Seconds(question_.timeout_seconds);
  v1::StatusResponse response;
  grpc::Status status;
  do {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(end - Now()));
    status = line_->stub->Status(&context, v1::StatusRequest(), &response);
    if (AsksAgain(status)) absl::SleepFor(absl::Seconds(kAgainSeconds));
  } while (AsksAgain(status) && Now() < end);
  if (status.ok()) return response;
  return Explained(status);
}

StatusOr<v1::JobsResponse> StatusAsker::AskJobs() {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(question_.timeout_seconds)));
  v1::JobsResponse response;
  const grpc::Status status = line_->deployment->Jobs(&context, v1::JobsRequest(), &response);
  if (status.ok()) return response;
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return Refused("the server at " + question_.coordinator +
                   " has one job, which `ringwood status` shows; one with --jobs has many");
  }
  return Explained(status);
}

Status StatusAsker::Explained(const grpc::Status& status) const {
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return Denied(question_.coordinator + ": " + status.error_message() +
                  ", or name its directory of checkpoints with --store");
  }
  RW_RETURN_IF_ERROR(WhyRefused(question_.coordinator, line_->access));
  return Unavailable(absl::StrFormat(
      "no coordinator answers at %s: %s; it is printed by `ringwood server` when it starts",
      question_.coordinator, status.error_message()));
}

}  // namespace ringwood
