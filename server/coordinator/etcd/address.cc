#include "server/coordinator/etcd/address.h"

#include <algorithm>
#include <ctime>
#include <sstream>

#include "base/net/endpoint.h"

namespace ringwood {
namespace {

constexpr char kScheme[] = "etcd://";
constexpr char kTlsScheme[] = "etcds://";
constexpr size_t kMostEndpoints = 16;  // etcd advises seven members at most

Status WrongAddress(const std::string& text, const std::string& why) {
  return Invalid("--coord-store \"" + text + "\": " + why +
                 "; give for example etcd://h1:2379,h2:2379,h3:2379/my-job");
}

}  // namespace

std::string EtcdAddress::text() const {
  std::string text = credentials == nullptr ? kScheme : kTlsScheme;
  for (const std::string& endpoint : endpoints) text += endpoint + ",";
  text.back() = '/';
  return text + prefix;
}

bool EtcdAddress::on_loopback() const {
  return std::all_of(endpoints.begin(), endpoints.end(),
                     [](const std::string& endpoint) { return IsLoopbackHost(HostOf(endpoint)); });
}

StatusOr<EtcdAddress> ParseEtcdAddress(const std::string& text, const std::string& tls_folder) {
  const bool tls = text.rfind(kTlsScheme, 0) == 0;
  if (!tls && text.rfind(kScheme, 0) != 0) {
    return WrongAddress(text, "it begins neither with etcd:// nor with etcds://");
  }
  if (tls == tls_folder.empty()) {
    return Invalid(
        "--coord-store " + text +
        (tls ? ": etcds:// is etcd under TLS: give the folder with its authority's ca.pem, and "
               "cert.pem and key.pem where it asks for a client's certificate, with --etcd-tls"
             : ": etcd:// is plaintext, in spite of --etcd-tls: write etcds://"));
  }
  const std::string rest = text.substr((tls ? sizeof kTlsScheme : sizeof kScheme) - 1);
  const size_t slash = rest.find('/');
  EtcdAddress address;
  if (slash != std::string::npos) address.prefix = rest.substr(slash + 1);
  while (!address.prefix.empty() && address.prefix.back() == '/') address.prefix.pop_back();
  if (address.prefix.empty()) {
    return WrongAddress(text, "there is no prefix, by which jobs in one etcd are told apart");
  }
  std::istringstream list(rest.substr(0, slash));
  for (std::string endpoint; std::getline(list, endpoint, ',');) {
    const auto named = ParseEndpoint(endpoint);
    if (!named.ok()) return WrongAddress(text, Message(named.status()));
    if (named->host.empty() || named->port == 0) {
      return WrongAddress(text, "\"" + endpoint + "\" is not HOST:PORT");
    }
    address.endpoints.push_back(endpoint);
  }
  if (address.endpoints.empty()) return WrongAddress(text, "no member is named");
  if (address.endpoints.size() > kMostEndpoints) {
    return WrongAddress(text, "more than 16 members are named");
  }
  if (tls) {
    RW_ASSIGN_OR_RETURN(address.credentials,
                        HostCredentials::Open(tls_folder, "etcd", std::time(nullptr)));
  }
  return address;
}

}  // namespace ringwood
