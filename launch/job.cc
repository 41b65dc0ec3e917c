#include "launch/job.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

using Json = nlohmann::json;

StatusOr<Job> Read(const Json& json) {
  Job job;
  const int version = json.at("version").get<int>();
  if (version != Job::kVersion) {
    return Refused(
        absl::StrFormat("the launcher speaks job version %d, this worker %d; install the same "
                        "Ringwood on all hosts",
                        version, Job::kVersion));
  }
  job.host = json.at("host").get<std::string>();
  job.network_interface = json.at("network_interface").get<std::string>();
  job.port_range = json.at("port_range").get<std::string>();
  job.master_port = json.at("master_port").get<bool>();
  job.silence_seconds = json.at("silence_seconds").get<double>();
  job.scratch = json.at("scratch").get<std::string>();
  job.launcher = json.at("launcher").get<int>();
  job.directory = json.at("directory").get<std::string>();
  job.command = json.at("command").get<std::vector<std::string>>();
  job.environment = json.at("environment").get<Environment>();
  for (const Json& slot : json.at("slots")) {
    job.slots.push_back(
        {slot.at("name").get<std::string>(),
         slot.at("environment").get<Environment>(),
         {slot.at("certificate").get<std::string>(), slot.at("key").get<std::string>()}});
  }
  job.authority = json.at("authority").get<std::string>();
  if (job.command.empty() || job.slots.empty()) return Invalid("the job has nothing to run");
  return job;
}

bool IsUtf8(const std::string& text) {
  try {  // the library's errors are exceptions; they end here
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

}  // namespace

Status CheckText(const Job& job) {
  for (size_t i = 0; i < job.command.size(); ++i) {
    if (IsUtf8(job.command[i])) continue;
    return Invalid(absl::StrFormat("word %d of the command is not UTF-8: \"%s\"", i + 1,
                                   absl::CHexEscape(job.command[i])));
  }
  if (!IsUtf8(job.directory)) return Invalid("the current directory's path is not UTF-8");
  for (const auto* environment : {&job.environment, &job.slots[0].environment}) {
    for (const auto& [name, value] : *environment) {
      if (!IsUtf8(name + value)) {
        return Invalid(absl::StrFormat("the variable %s is not UTF-8", absl::CHexEscape(name)));
      }
    }
  }
  return OkStatus();
}

std::string ToJson(const Job& job) {
  Json slots = Json::array();
  for (const Slot& slot : job.slots) {
    slots.push_back({{"name", slot.name},
                     {"environment", slot.environment},
                     {"certificate", slot.leaf.certificate},
                     {"key", slot.leaf.key}});
  }
  const Json json = {{"version", Job::kVersion},
                     {"host", job.host},
                     {"network_interface", job.network_interface},
                     {"port_range", job.port_range},
                     {"master_port", job.master_port},
                     {"silence_seconds", job.silence_seconds},
                     {"scratch", job.scratch},
                     {"launcher", job.launcher},
                     {"directory", job.directory},
                     {"command", job.command},
                     {"environment", job.environment},
                     {"slots", slots},
                     {"authority", job.authority}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // CheckText left nothing to
}

StatusOr<Job> JobFromJson(const std::string& text) {
  try {  // the library's errors are exceptions; they end here
    return Read(Json::parse(text));
  } catch (const Json::exception& error) {
    return Invalid(absl::StrFormat("the job on standard input is not readable: %s", error.what()));
  }
}

}  // namespace ringwood
