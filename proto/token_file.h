// A file with a job's secret or with a token of it.
#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace ringwood {

// The word in the file. Denied, as ssh does with a key: a file of this user that others can read.
// NotFound: there is none, or no word in it. Errors name `source` (a flag or variable) and the
// file, never what is in it.
StatusOr<std::string> ReadTokenFile(const std::string& source, const std::string& file);

// The token that a command was given: of --token-file, else of RINGWOOD_TOKEN, else of the file
// that RINGWOOD_TOKEN_FILE names; "" where there is none. Never from argv, which everybody on the
// machine can read.
StatusOr<std::string> FindToken(const std::map<std::string, std::string>& environment,
                                const std::string& token_file);

// The file from which FindToken takes it; "" where that is none.
std::string TokenFileOf(const std::map<std::string, std::string>& environment,
                        const std::string& token_file);

// Invalid: the secret that was read from `file` is what a person wrote into it by mistake, or what
// a guesser would find. `ringwood token new` makes 64 digits.
Status CheckSecret(const std::string& secret, const std::string& file);

// Writes the text, or where the server is, to a file that only this user can read (0600); replaces
// an older file, that which a link names where a link is there.
Status KeepToken(const std::string& file, const std::string& text);

}  // namespace ringwood
