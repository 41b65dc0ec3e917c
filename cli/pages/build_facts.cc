#include "cli/pages/build_facts.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/version_info.h>
#include <rocksdb/version.h>
#include <ucp/api/ucp.h>

#include "absl/strings/str_format.h"
#include "base/version.h"

namespace ringwood {
namespace {

std::string UcxVersion() {
  unsigned major = 0, minor = 0, patch = 0;
  ::ucp_get_version(&major, &minor, &patch);  // of the library that is loaded
  return absl::StrFormat("%u.%u.%u", major, minor, patch);
}

std::string ProtobufVersion() {
  const int version = GOOGLE_PROTOBUF_VERSION;
  return absl::StrFormat("%d.%d.%d", version / 1000000, version / 1000 % 1000, version % 1000);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> BuildFacts(const Build& build) {
  const bool cuda = !build.cuda.empty();
  return {{"ringwood", Version()},
          {"commit", build.commit.empty() ? "not known" : build.commit},
          {"build", build.type},
          {"compiler", build.compiler},
          {"gRPC", GRPC_CPP_VERSION_STRING},
          {"protobuf", ProtobufVersion()},
          {"RocksDB", absl::StrFormat("%d.%d.%d", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH)},
          {"UCX", UcxVersion()},
          {"CUDA", cuda ? build.cuda : "none"},
          {"NCCL", cuda ? "loaded when a job needs it" : "none"}};
}

std::string BuildText(const Build& build) {
  std::string text;
  for (const auto& [name, value] : BuildFacts(build)) {
    text += text.empty() ? name + " " + value : absl::StrFormat("\n%-9s %s", name, value);
  }
  return text;
}

}  // namespace ringwood
