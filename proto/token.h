// The job's token, as it travels: with every call, in the call's metadata, put there by the
// channel.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "proto/access.h"

namespace ringwood {

// "-bin": any bytes may stand in a token.
inline constexpr char kTokenKey[] = "ringwood-token-bin";

// Where a server leaves it for this user, in its store.
inline std::string TokenFile(const std::string& store) { return store + "/token"; }
// And beside it the folder of its certificate, where it has one,
inline std::string IdentityFile(const std::string& store) { return store + "/identity"; }
// and the HOST:PORT at which it listens, with the number of its start below (server_start.h).
inline std::string AddressFile(const std::string& store) { return store + "/address"; }

// A channel to a server of the job at one of these addresses (addresses.h). Its calls all carry the
// token, where there is one, as it is when they begin (held_token.h); with credentials it is
// encrypted, else plaintext.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           const grpc::ChannelArguments& arguments,
                                           const Access& access);

}  // namespace ringwood
