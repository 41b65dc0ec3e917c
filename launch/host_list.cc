#include "launch/host_list.h"

#include <fstream>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kMaxHostFile = 4 << 20;  // beyond it, it is not a hostfile

}  // namespace

StatusOr<std::vector<Host>> HostsGiven(const std::string& hosts, const std::string& host_file) {
  if (!hosts.empty() && !host_file.empty()) {
    return Invalid("both -H and --hostfile name the hosts; give one of them");
  }
  if (!hosts.empty()) return ParseHosts(hosts);
  if (host_file.empty()) return std::vector<Host>{{"localhost", 0}};
  std::ifstream file(host_file);
  std::string text(kMaxHostFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0) {
    return NotFound(absl::StrFormat("--hostfile: cannot read %s, or it is empty", host_file));
  }
  text.resize(file.gcount());
  return ParseHostFile(text, host_file);
}

}  // namespace ringwood
