#include "proto/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kMaxTokenFileBytes = 4096;
constexpr char kSpaces[] = " \t\r\n";

class OpenedFile {
 public:
  // Does not wait for the other end of a FIFO.
  explicit OpenedFile(const std::string& file)
      : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenedFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

}  // namespace

StatusOr<std::string> ReadTokenFile(const std::string& source, const std::string& file) {
  const OpenedFile opened(file);
  struct stat facts {};
  if (opened.get() < 0 || fstat(opened.get(), &facts) != 0) {
    return NotFound(absl::StrFormat("%s: cannot read %s: %s", source, file, std::strerror(errno)));
  }
  if (!S_ISREG(facts.st_mode)) {
    return Invalid(absl::StrFormat("%s: %s is not a file", source, file));
  }
  // Another owner's file, a mounted secret for example, is that owner's affair, as with ssh.
  if (facts.st_uid == geteuid() && (facts.st_mode & 077) != 0) {
    return Denied(
        absl::StrFormat("%s: others can read %s (mode %04o), which holds a token: chmod 600 %s",
                        source, file, static_cast<unsigned>(facts.st_mode & 07777), file));
  }
  std::string text(kMaxTokenFileBytes, '\0');
  const ssize_t length = read(opened.get(), text.data(), text.size());
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) {
    return NotFound(absl::StrFormat("%s: no token in %s", source, file));
  }
  return text.substr(begin, text.find_first_of(kSpaces, begin) - begin);
}

StatusOr<std::string> FindToken(const std::map<std::string, std::string>& environment,
                                const std::string& token_file) {
  if (!token_file.empty()) return ReadTokenFile("--token-file", token_file);
  const auto token = environment.find("RINGWOOD_TOKEN");
  if (token != environment.end() && !token->second.empty()) return token->second;
  const auto file = environment.find("RINGWOOD_TOKEN_FILE");
  if (file == environment.end() || file->second.empty()) return std::string();
  return ReadTokenFile("RINGWOOD_TOKEN_FILE", file->second);
}

Status KeepToken(const std::string& file, const std::string& text) {
  unlink(file.c_str());
  const int out = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool written =
      out >= 0 && write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (out >= 0) close(out);
  return written ? OkStatus() : Unavailable("cannot write " + file + ": " + std::strerror(error));
}

}  // namespace ringwood
