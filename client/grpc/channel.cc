#include "client/grpc/channel.h"

#include "proto/token.h"

namespace ringwood {
namespace {

// Of an answer: chunks, parts of lists and pieces of the update log have 1 MiB and a little; a plan
// and a profile may have some more.
constexpr int kMaxAnswerBytes = 64 << 20;

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const Access& access,
                                           const OwnConnection& connection) {
  grpc::ChannelArguments arguments = connection.Arguments();
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  return OpenChannel(address, arguments, access);
}

}  // namespace ringwood
