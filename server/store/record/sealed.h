// Digests of what is stored. A message has its XXH3 digest before its bytes, so that damage is an
// error and not another message.
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/status.h"

namespace ringwood {

inline std::string SealBytes(const std::string& body) {
  const uint64_t digest = Digest(std::as_bytes(std::span(body)));
  return std::string(reinterpret_cast<const char*>(&digest), sizeof digest) + body;
}

template <typename Message>
std::string Seal(const Message& message) {
  return SealBytes(message.SerializeAsString());
}

// `what` names it in the error.
template <typename Message>
StatusOr<Message> Unseal(const std::string& value, const std::string& what) {
  uint64_t digest = 0;
  if (value.size() < sizeof digest) return Corrupt(what + " is cut short");
  std::memcpy(&digest, value.data(), sizeof digest);
  const std::string body = value.substr(sizeof digest);
  Message message;
  if (Digest(std::as_bytes(std::span(body))) != digest || !message.ParseFromString(body)) {
    return Corrupt(what + " is damaged (its checksum differs)");
  }
  return message;
}

std::string Sha256(const std::string& bytes);

}  // namespace ringwood
