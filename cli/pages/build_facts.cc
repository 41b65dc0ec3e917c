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

std::string BuildText(const Build& build) {
  const bool cuda = !build.cuda.empty();
  std::string text = absl::StrFormat("ringwood %s", Version());
  const auto add = [&text](const char* name, const std::string& value) {
    text += absl::StrFormat("\n%-9s %s", name, value);
  };
  add("commit", build.commit.empty() ? "not known" : build.commit);
  add("build", build.type);
  add("compiler", build.compiler);
  add("gRPC", GRPC_CPP_VERSION_STRING);
  add("protobuf", ProtobufVersion());
  add("RocksDB", absl::StrFormat("%d.%d.%d", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH));
  add("UCX", UcxVersion());
  add("CUDA", cuda ? build.cuda : "none");
  add("NCCL", cuda ? "loaded when a job needs it" : "none");
  return text;
}

}  // namespace ringwood
