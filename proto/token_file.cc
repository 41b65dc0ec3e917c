#include "proto/token_file.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/files/whole_file.h"
#include "identity/private_file.h"

namespace ringwood {
namespace {

constexpr size_t kMaxTokenFileBytes = 4096;
constexpr size_t kLeastSecret = 16;  // characters
constexpr char kSpaces[] = " \t\r\n";

}  // namespace

StatusOr<std::string> ReadTokenFile(const std::string& source, const std::string& file) {
  const auto read = ReadSmallFile(file, kMaxTokenFileBytes + 1);
  if (read.status().code() == StatusCode::kInvalidArgument) return Annotate(read.status(), source);
  if (!read.ok()) return NotFound(source + ": " + Message(read.status()));
  if (!IsPrivateOrAnothers(*read)) {
    return Denied(
        absl::StrFormat("%s: others can read %s (mode %04o), which holds a token: chmod 600 %s",
                        source, file, read->mode, file));
  }
  const std::string& text = read->content;
  if (text.size() > kMaxTokenFileBytes) {
    return Invalid(absl::StrFormat("%s: %s is longer than %d bytes, which no token is", source,
                                   file, kMaxTokenFileBytes));
  }
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) {
    return NotFound(absl::StrFormat("%s: no token in %s", source, file));
  }
  return text.substr(begin, text.find_first_of(kSpaces, begin) - begin);
}

StatusOr<std::string> FindToken(const std::map<std::string, std::string>& environment,
                                const std::string& token_file) {
  const std::string file = TokenFileOf(environment, token_file);
  if (!file.empty()) {
    return ReadTokenFile(token_file.empty() ? "RINGWOOD_TOKEN_FILE" : "--token-file", file);
  }
  const auto token = environment.find("RINGWOOD_TOKEN");
  return token == environment.end() ? std::string() : token->second;
}

std::string TokenFileOf(const std::map<std::string, std::string>& environment,
                        const std::string& token_file) {
  if (!token_file.empty()) return token_file;
  const auto token = environment.find("RINGWOOD_TOKEN");
  if (token != environment.end() && !token->second.empty()) return "";
  const auto file = environment.find("RINGWOOD_TOKEN_FILE");
  return file == environment.end() ? std::string() : file->second;
}

Status CheckSecret(const std::string& secret, const std::string& file) {
  constexpr char kRemedy[] = "; make one with `ringwood token new --out FILE`";
  if (!std::all_of(secret.begin(), secret.end(), absl::ascii_isgraph)) {
    return Invalid(file + " holds something else than the printable characters of a secret" +
                   kRemedy);
  }
  if (secret.size() >= kLeastSecret) return OkStatus();
  return Invalid(
      absl::StrFormat("the secret in %s has %d characters, and has to have %d at least%s", file,
                      secret.size(), kLeastSecret, kRemedy));
}

Status KeepToken(const std::string& file, const std::string& text) {
  const Status written = WriteWhole(file, text, 0600);
  return written.ok() ? written : Unavailable(Message(written));
}

}  // namespace ringwood
