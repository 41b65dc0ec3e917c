#include "proto/held_token.h"

#include <filesystem>
#include <utility>

#include "base/log.h"
#include "proto/token_file.h"

namespace ringwood {

HeldToken::HeldToken(std::string token, const std::string& file)
    : file_(file.empty() ? file : std::filesystem::absolute(file).string()),
      token_(std::move(token)) {}

std::string HeldToken::At(TimePoint now) {
  if (BeginsLook(now)) EndLook(ReadTokenFile("the token", file_));
  absl::MutexLock lock(&mutex_);
  return token_;
}

bool HeldToken::BeginsLook(TimePoint now) {
  absl::MutexLock lock(&mutex_);
  if (file_.empty() || looking_ || now < next_look_) return false;
  next_look_ = now + Seconds(kLookSeconds);
  looking_ = true;
  return true;
}

void HeldToken::EndLook(StatusOr<std::string> read) {
  absl::MutexLock lock(&mutex_);
  looking_ = false;
  if (!read.ok() && !warned_) {
    Log(LogLevel::kWarning, Message(read.status()) + "; the one that was read before is used");
  }
  warned_ = !read.ok();
  if (!read.ok() || *read == token_) return;
  token_ = *std::move(read);
  Log(LogLevel::kInfo, "the token in " + file_ + " was renewed");
}

}  // namespace ringwood
