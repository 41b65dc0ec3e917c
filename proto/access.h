// What a process brings to every connection and call to the coordinator: the job's token, and its
// certificate where it has one.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "identity/credentials.h"
#include "identity/explain.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

struct Access {
  Access() = default;
  Access(std::string own_token,  // NOLINT: a token alone is one
         std::shared_ptr<const Credentials> own_credentials = nullptr)
      : token(std::move(own_token)), credentials(std::move(own_credentials)) {}
  Access(const char* own_token) : token(own_token) {}  // NOLINT

  std::string token;                               // empty: none
  std::shared_ptr<const Credentials> credentials;  // null: the connection is plaintext
};

// Of the folder that --identity or RINGWOOD_IDENTITY names; null where none does.
StatusOr<std::shared_ptr<const Credentials>> OpenCredentials(const std::string& folder);

// The folder that a server has left in its store (IdentityFile); empty: it has none.
std::string KeptIdentity(const std::string& store);

// Why a connection to this address fails, where the reason is a certificate; else OK. Blocks for
// three seconds at most.
Status WhyRefused(const std::string& address, const Access& access);

// Whom a member's certificate names.
inline IdentityRole IdentityRoleOf(v1::Role role) {
  return role == v1::ROLE_REDUCER ? IdentityRole::kServer : IdentityRole::kRank;
}

}  // namespace ringwood
