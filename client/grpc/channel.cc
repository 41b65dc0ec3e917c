#include "client/grpc/channel.h"

#include "proto/token.h"

namespace ringwood {
namespace {

// The largest answer is a manifest: 64 bytes for each piece of 1 MiB.
constexpr int kMaxAnswerBytes = 64 << 20;

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& token,
                                           const OwnConnection& connection) {
  grpc::ChannelArguments arguments = connection.Arguments();
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  return OpenChannel(address, arguments, token);
}

}  // namespace ringwood
