#include "server/store/record/sealed.h"

#include <openssl/sha.h>

namespace ringwood {

std::string Sha256(const std::string& bytes) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash);
  return std::string(reinterpret_cast<const char*>(hash), sizeof hash);
}

}  // namespace ringwood
