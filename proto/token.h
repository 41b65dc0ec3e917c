// The job's token, as it travels: with every call, in the call's metadata, put there by the
// channel.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace ringwood {

// "-bin": any bytes may stand in a token.
inline constexpr char kTokenKey[] = "ringwood-token-bin";

// Where a server leaves it for this user, in its store.
inline std::string TokenFile(const std::string& store) { return store + "/token"; }
// And beside it the HOST:PORT at which it listens.
inline std::string AddressFile(const std::string& store) { return store + "/address"; }

// A plaintext channel to one of these addresses (addresses.h), whose calls all carry `token`; with
// an empty one they carry none.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           const grpc::ChannelArguments& arguments,
                                           const std::string& token);

}  // namespace ringwood
