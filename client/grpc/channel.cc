#include "client/grpc/channel.h"

#include "proto/addresses.h"
#include "proto/token.h"

namespace ringwood {
namespace {

// Of an answer: chunks, parts of lists and pieces of the update log have 1 MiB and a little; a plan
// and a profile may have some more.
constexpr int kMaxAnswerBytes = 64 << 20;

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const Access& access,
                                           const OwnConnection& connection) {
  OwnConnection own = connection;
  // Of several addresses each has that long: of one argument that is set twice gRPC takes the
  // first.
  if (own.reconnection && !IsOneAddress(address)) {
    own.reconnection->attempt_milliseconds = kEagerReconnection.attempt_milliseconds;
  }
  grpc::ChannelArguments arguments = own.Arguments();
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  return OpenChannel(address, arguments, access);
}

}  // namespace ringwood
