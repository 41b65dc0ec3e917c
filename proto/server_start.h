// Which start of a server answers. A server that is killed leaves its address in its store, and
// another server may take the port: whoever finds an address there compares.
#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <string>

namespace ringwood {

// In the metadata of the answers to readers and observers: a number that a process of a server made
// when it was started, as text, which stands below the address in its store (AddressFile).
inline constexpr char kServerStartKey[] = "ringwood-server-start";

using AnswerMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Empty: it says none, as a server of an older version, or whoever answered for it.
inline std::string ServerStartIn(const AnswerMetadata& metadata) {
  const auto found = metadata.find(kServerStartKey);
  if (found == metadata.end()) return "";
  return {found->second.data(), found->second.size()};
}

// Whether `said` came from another start of a server than `expected`, which may be empty: any.
inline bool IsAnotherStart(const std::string& expected, const std::string& said) {
  return !expected.empty() && !said.empty() && said != expected;
}

inline std::string AnotherServerAt(const std::string& address) {
  return "the server at " + address +
         " does not serve this store: the one that did was killed and left its address there, and "
         "another has its port now; start a server on the store again, or read it with `ringwood "
         "checkpoint list --store DIR`";
}

}  // namespace ringwood
