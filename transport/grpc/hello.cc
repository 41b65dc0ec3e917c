#include "transport/grpc/hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ringwood {

std::vector<std::byte> SignHello(const Hello& hello, const std::string& token) {
  // Numbers between fixed words, so no two hellos have the same text.
  const std::string text = absl::StrFormat(
      "ringwood data hello 1: job %d epoch %d from %d to %d: %016x %016x", hello.name.job,
      hello.name.epoch, hello.name.self, hello.to, hello.caller, hello.called);
  std::vector<std::byte> bytes(kHelloBytes);
  const uint32_t node = static_cast<uint32_t>(hello.name.self);
  std::memcpy(bytes.data(), &node, sizeof node);
  unsigned length = 0;
  RW_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                reinterpret_cast<unsigned char*>(bytes.data()) + sizeof node, &length) != nullptr);
  RW_CHECK(length + sizeof node == kHelloBytes);
  return bytes;
}

int ClaimedNode(std::span<const std::byte> bytes) {
  uint32_t node = 0;
  if (bytes.size() != kHelloBytes) return -1;
  std::memcpy(&node, bytes.data(), sizeof node);
  return node <= INT32_MAX ? static_cast<int>(node) : -1;
}

bool IsHello(std::span<const std::byte> bytes, const Hello& hello, const std::string& token) {
  const std::vector<std::byte> right = SignHello(hello, token);
  return bytes.size() == right.size() &&
         CRYPTO_memcmp(bytes.data(), right.data(), right.size()) == 0;
}

}  // namespace ringwood
