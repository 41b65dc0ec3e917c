#include "launch/run_check.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "launch/run_jobs.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

bool IsHere(const HostRanks& place) { return place.host == "localhost"; }

// `file` may end with '/': then files are written into that directory.
Status CheckWritable(const std::string& flag, const std::string& file) {
  std::error_code error;
  if (file.back() != '/' && fs::is_directory(file, error)) {
    return Invalid(absl::StrFormat("%s %s is a directory; give a file", flag, file));
  }
  const std::string directory = fs::path(file).parent_path().string();
  if (!fs::is_directory(directory, error)) {
    return Invalid(absl::StrFormat("%s %s: there is no directory %s", flag, file, directory));
  }
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return OkStatus();
  return Invalid(absl::StrFormat("%s %s: cannot write into %s: %s", flag, file, directory,
                                 std::strerror(errno)));
}

Status CheckReadable(const std::string& flag, const std::string& file) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    return Invalid(absl::StrFormat("%s %s: there is no such file", flag, file));
  }
  if (!fs::is_regular_file(file, error)) {
    return Invalid(absl::StrFormat("%s %s is not a regular file", flag, file));
  }
  if (::access(file.c_str(), R_OK) == 0) return OkStatus();
  return Invalid(absl::StrFormat("%s %s: %s", flag, file, std::strerror(errno)));
}

}  // namespace

bool OnLoopback(const RunOptions& run) {
  const std::string& interface_name = run.context.network_interface;
  return interface_name.empty() || interface_name == "lo" || interface_name == "=lo";
}

Status CheckNetwork(const RunOptions& run) {
  const std::string& interface_name = run.context.network_interface;
  if (run.places.size() > 1 && interface_name.empty()) {
    return Invalid(
        "more than one host needs --network-interface IF, the interface that joins them");
  }
  if (OnLoopback(run) || run.context.trusted_fabric) return OkStatus();
  if (run.context.transport == "ucx") {
    return Denied(absl::StrFormat(
        "--network-interface %s is not loopback, and --transport ucx has no encryption. Say "
        "--trusted-fabric if only this job's hosts can reach that network, or leave the transport "
        "to gRPC under TLS",
        interface_name));
  }
  return OkStatus();
}

Status CheckRemoteProgram(const RunOptions& run) {
  if (std::all_of(run.places.begin(), run.places.end(), IsHere)) return OkStatus();
  const std::string& path = run.reach.remote_program;
  const bool plain = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("/._-+~@%,:=", c) != nullptr;
  });
  if (plain && !path.empty() && path[0] != '-') return OkStatus();
  return Invalid(absl::StrFormat(
      "the path \"%s\" of ringwood on the other hosts would not pass a remote shell as one word; "
      "give --remote-program a path of letters, digits and / . _ - + ~ @ %% , : =",
      path));
}

Status CheckFiles(const RunOptions& run) {
  const RankContext& context = run.context;
  if (IsHere(run.places[0])) {  // rank 0's
    if (!context.freeze_plan.empty()) {
      RW_RETURN_IF_ERROR(CheckReadable("--freeze-plan", context.freeze_plan));
    }
    for (const auto& [flag, file] :
         {std::pair{"--report", &context.report}, std::pair{"--save-plan", &context.save_plan},
          std::pair{"--profile", &context.profile}}) {
      if (!file->empty()) RW_RETURN_IF_ERROR(CheckWritable(flag, *file));
    }
  }
  if (std::none_of(run.places.begin(), run.places.end(), IsHere)) return OkStatus();
  for (const auto& [flag, name] : {std::pair{"--timeline", &context.timeline},
                                   std::pair{"--flight-record", &context.flight_record}}) {
    if (!name->empty()) RW_RETURN_IF_ERROR(CheckWritable(flag, *name));
  }
  return OkStatus();
}

Status CheckText(const RunOptions& run) {
  if (run.servers > 0) RW_RETURN_IF_ERROR(CheckText(ServerJob(run, 0, "")));
  for (const HostRanks& place : run.places) {
    RW_RETURN_IF_ERROR(CheckText(RankJob(run, place)));
  }
  return OkStatus();
}

}  // namespace ringwood
