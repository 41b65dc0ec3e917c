#include "server/store/pins.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr double kLockPauseOfPinsSeconds = 0.02;
constexpr size_t kMaxPins = 100'000;

std::string FolderOfPins(const std::string& directory) { return directory + "/pins"; }

std::optional<CheckpointId> ParsePinName(const std::string& name) {
  CheckpointId id;
  const char* const end = name.data() + name.size();
  const auto epoch = std::from_chars(name.data(), end, id.epoch);
  if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != '-') return std::nullopt;
  const auto step = std::from_chars(epoch.ptr + 1, end, id.step);
  if (step.ec != std::errc() || step.ptr != end) return std::nullopt;
  return id;
}

std::string ReadLabel(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string label(kMaxLabelBytes, '\0');
  file.read(label.data(), static_cast<std::streamsize>(label.size()));
  label.resize(static_cast<size_t>(file.gcount()));
  return Printable(label, kMaxLabelBytes);
}

}  // namespace

std::string PinFile(const std::string& directory, const CheckpointId& id) {
  return absl::StrFormat("%s/%d-%d", FolderOfPins(directory), id.epoch, id.step);
}

StatusOr<std::map<CheckpointId, std::string>> ReadPins(const std::string& directory) {
  std::map<CheckpointId, std::string> pins;
  std::error_code error;
  std::filesystem::directory_iterator entries(FolderOfPins(directory), error);
  if (error == std::errc::no_such_file_or_directory) return pins;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const auto id = ParsePinName(entries->path().filename().string());
    if (!id) continue;
    std::error_code ignored;
    const bool regular =
        entries->symlink_status(ignored).type() == std::filesystem::file_type::regular;
    pins[*id] = regular ? ReadLabel(entries->path()) : "";
    if (pins.size() > kMaxPins) return Exhausted("there are more than 100000 pins");
  }
  if (!error) return pins;
  return Unavailable("cannot read the pins in " + FolderOfPins(directory) + ": " + error.message());
}

StatusOr<std::unique_ptr<PinLock>> PinLock::Take(const std::string& directory, Duration patience) {
  const std::string folder = FolderOfPins(directory);
  const TimePoint deadline = Now() + patience;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Refused("cannot create " + folder + ": " + std::strerror(errno));
  }
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return Refused("cannot open " + folder + ": " + std::strerror(errno));
  std::unique_ptr<PinLock> lock(new PinLock(descriptor));
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (Now() >= deadline) {
      return Unavailable(folder + " is held by another process, which pins or removes: try again");
    }
    std::this_thread::sleep_for(Seconds(kLockPauseOfPinsSeconds));
  }
  return lock;
}

PinLock::~PinLock() { close(descriptor_); }

}  // namespace ringwood
