#include "server/store/ballast.h"

#include <filesystem>

#include "base/random.h"
#include "server/store/store_directory.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPlenty = 16 * kBallastBytes;

std::string PathIn(const std::string& directory) { return directory + "/BALLAST"; }

}  // namespace

// Of random bytes, which no file system stores in less room.
void KeepBallast(const std::string& directory) {
  std::error_code error;
  if (fs::exists(PathIn(directory), error) || fs::space(directory, error).available < kPlenty) {
    return;
  }
  Random random(Unpredictable());
  std::string content(kBallastBytes, '\0');
  for (char& byte : content) byte = static_cast<char>(random.Next());
  (void)ReplaceFile(PathIn(directory), content);  // a store does without
}

void FreeBallastIfFull(const std::string& directory) {
  std::error_code error;
  const fs::space_info room = fs::space(directory, error);
  if (!error && room.available < kBallastBytes) fs::remove(PathIn(directory), error);
}

}  // namespace ringwood
