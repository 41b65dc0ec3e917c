// What a process brings to every connection and call to the coordinator: the job's token, and its
// certificate where it has one.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "identity/credentials.h"
#include "identity/explain.h"
#include "proto/held_token.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

struct Access {
  Access() = default;
  // `token_file`: where the token was read, and is again when it is renewed; or empty.
  Access(const std::string& own_token,  // NOLINT: a token alone is one
         std::shared_ptr<const Credentials> own_credentials = nullptr,
         const std::string& token_file = "")
      : token(own_token.empty() ? nullptr : std::make_shared<HeldToken>(own_token, token_file)),
        credentials(std::move(own_credentials)) {}
  Access(const char* own_token) : Access(std::string(own_token)) {}  // NOLINT

  std::shared_ptr<HeldToken> token;  // null: none; of all channels that are opened with it
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
