#include "server/calls/call_guard.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "proto/token.h"

namespace ringwood {
namespace {

using TokenHash = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

TokenHash HashOf(std::string_view token) {
  TokenHash hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

// Compares hashes, so that neither the length nor the first differing byte shows in the time taken.
void ProcessCall(void* state, grpc_auth_context*, const grpc_metadata* metadata, size_t count,
                 grpc_process_auth_metadata_done_cb done, void* user_data) {
  const auto& wanted = *static_cast<const TokenHash*>(state);
  bool any = false, same = false;
  for (size_t i = 0; i < count; ++i) {
    if (grpc_slice_str_cmp(metadata[i].key, kTokenKey) != 0) continue;
    any = true;
    const grpc_slice& value = metadata[i].value;
    const TokenHash brought = HashOf(std::string_view(
        reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(value)), GRPC_SLICE_LENGTH(value)));
    same = same || CRYPTO_memcmp(brought.data(), wanted.data(), wanted.size()) == 0;
  }
  if (same) return done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
  const char* const why = any ? "this call has a wrong token: give the token of this job "
                                "(RINGWOOD_TOKEN)"
                              : "this call has no token: give the token of this job "
                                "(RINGWOOD_TOKEN)";
  done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_PERMISSION_DENIED, why);
}

// gRPC's C++ wrapper of plaintext credentials takes no processor, what it wraps does.
class GuardedCredentials : public grpc::ServerCredentials {
 public:
  explicit GuardedCredentials(const std::string& token)
      : credentials_(grpc_insecure_server_credentials_create()) {
    const auto destroy = [](void* state) { delete static_cast<TokenHash*>(state); };
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {ProcessCall, destroy, new TokenHash(HashOf(token))});
  }
  ~GuardedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    RW_CHECK(false);  // there is one already
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

Status KeepToken(const std::string& file, const std::string& token) {
  unlink(file.c_str());
  const int out = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool written =
      out >= 0 && write(out, token.data(), token.size()) == static_cast<ssize_t>(token.size());
  const int error = errno;
  if (out >= 0) close(out);
  return written ? OkStatus() : Unavailable("cannot write " + file + ": " + std::strerror(error));
}

std::shared_ptr<grpc::ServerCredentials> TokenCredentials(const std::string& token) {
  if (token.empty()) return grpc::InsecureServerCredentials();
  return std::make_shared<GuardedCredentials>(token);
}

}  // namespace ringwood
