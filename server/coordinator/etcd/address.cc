#include "server/coordinator/etcd/address.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <sstream>

namespace ringwood {
namespace {

constexpr char kScheme[] = "etcd://";
constexpr char kTlsScheme[] = "etcds://";
constexpr size_t kMostEndpoints = 16;  // etcd advises seven members at most

bool IsEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stop == end && port > 0 && port <= 65535;
}

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
  return std::all_of(endpoints.begin(), endpoints.end(), [](const std::string& endpoint) {
    return endpoint.rfind("127.", 0) == 0 || endpoint.rfind("localhost:", 0) == 0;
  });
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
    if (!IsEndpoint(endpoint)) return WrongAddress(text, "\"" + endpoint + "\" is not HOST:PORT");
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
