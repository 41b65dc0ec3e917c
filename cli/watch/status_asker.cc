#include "cli/watch/status_asker.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/net/endpoint.h"
#include "launch/network.h"
#include "proto/access.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "proto/server_start.h"
#include "proto/token.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "ringwood/v1/deployment.grpc.pb.h"

namespace ringwood {
namespace {

constexpr double kAgainSeconds = 0.1;  // a deployment opens a job in about so long
constexpr auto kAnotherServer = grpc::StatusCode::ABORTED;  // with which none answers this question

// Whether gRPC says this, or somebody who is no coordinator: a connection failed or was silent, or
// the call is not known there. All else a coordinator has answered.
bool NobodyAnswered(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return !AsksAgain(status);
    case grpc::StatusCode::CANCELLED:  // by a server that ends
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct StatusAsker::Line {
  static StatusOr<std::unique_ptr<Line>> To(FoundServer server) {
    RW_RETURN_IF_ERROR(CheckEndpoints(server.address));
    const auto channel = OpenChannel(server.address, OwnConnection().Arguments(), server.access);
    return std::make_unique<Line>(Line{std::move(server), v1::Coordinator::NewStub(channel),
                                       v1::Deployment::NewStub(channel)});
  }

  FoundServer server;
  std::unique_ptr<v1::Coordinator::Stub> stub;
  std::unique_ptr<v1::Deployment::Stub> deployment;
};

StatusAsker::StatusAsker(Environment environment, StatusQuestion question,
                         std::unique_ptr<Line> line)
    : environment_(std::move(environment)),
      question_(std::move(question)),
      line_(std::move(line)) {}
StatusAsker::~StatusAsker() = default;

StatusOr<std::unique_ptr<StatusAsker>> StatusAsker::Open(const Environment& environment,
                                                         const StatusQuestion& question) {
  RW_ASSIGN_OR_RETURN(FoundServer server, FindServer(environment, question.access));
  RW_ASSIGN_OR_RETURN(auto line, Line::To(std::move(server)));
  return std::unique_ptr<StatusAsker>(new StatusAsker(environment, question, std::move(line)));
}

StatusOr<v1::StatusResponse> StatusAsker::Ask() {
  v1::StatusResponse response;
  const grpc::Status status = Asked([&](grpc::ClientContext* context) {
    return line_->stub->Status(context, v1::StatusRequest(), &response);
  });
  if (status.ok()) return response;
  return Explained(status);
}

StatusOr<v1::JobsResponse> StatusAsker::AskJobs() {
  v1::JobsResponse response;
  const grpc::Status status = Asked([&](grpc::ClientContext* context) {
    return line_->deployment->Jobs(context, v1::JobsRequest(), &response);
  });
  if (status.ok()) return response;
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return Refused("the server at " + line_->server.address +
                   " has one job, which `ringwood status` shows; one with --jobs has many");
  }
  return Explained(status);
}

template <typename Call>
grpc::Status StatusAsker::Asked(const Call& call) {
  const TimePoint end = Now() + Seconds(question_.timeout_seconds);
  for (;;) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(end - Now()));
    grpc::Status status = call(&context);
    const std::string start = ServerStartIn(context.GetServerTrailingMetadata());
    if (IsAnotherStart(line_->server.start, start)) {
      status = {kAnotherServer, AnotherServerAt(line_->server.address)};
    }
    if (status.ok()) return status;
    const bool followed = Follow();  // the next question is its, even where this one's time is over
    if (Now() >= end || (!followed && !AsksAgain(status))) return status;
    if (!followed) absl::SleepFor(absl::Seconds(kAgainSeconds));
  }
}

bool StatusAsker::Follow() {
  std::optional<FoundServer> other = FindAnother(environment_, question_.access, line_->server);
  if (!other.has_value()) return false;
  auto line = Line::To(*std::move(other));
  if (!line.ok()) return false;
  line_ = *std::move(line);
  return true;
}

Status StatusAsker::Explained(const grpc::Status& status) const {
  const std::string& address = line_->server.address;
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return Denied(address + ": " + status.error_message() +
                  ", or name its directory of checkpoints with --store");
  }
  if (status.error_code() == kAnotherServer) return Refused(status.error_message());
  if (!NobodyAnswered(status)) return Annotate(FromGrpc(status), "the coordinator at " + address);
  RW_RETURN_IF_ERROR(WhyRefused(address, line_->server.access));
  return Unavailable(absl::StrFormat(
      "no coordinator answers at %s: %s; it is printed by `ringwood server` when it starts",
      address, status.error_message()));
}

}  // namespace ringwood
