#include "client/c/fork_guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/synchronization/mutex.h"

namespace ringwood {
namespace {

// Four a session; a process with more sessions than that has its last ones unguarded.
constexpr size_t kMaxSets = 1024;
constexpr size_t kChunkBytes = 4096;  // of /proc/self/fdinfo, read at once
constexpr size_t kLineBytes = 256;    // a longer line says nothing of ours

// Descriptors plus one; 0: a free place. A forked child reads it without a lock.
std::atomic<int> sets[kMaxSets];
absl::Mutex* const sets_mutex = new absl::Mutex();  // who writes

bool IsEpollSet(int descriptor) {
  char path[32], target[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(path, target, sizeof target);
  constexpr char kEpoll[] = "anon_inode:[eventpoll]";
  return length == sizeof kEpoll - 1 && std::memcmp(target, kEpoll, sizeof kEpoll - 1) == 0;
}

// From here on: in a child, where only what signal handlers may call is safe.

void Replace(int descriptor) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return;
  dup3(nothing, descriptor, O_CLOEXEC);
  close(nothing);
}

// The number behind `key` in a line, in this base; -1 where there is none.
int64_t NumberAfter(const char* line, const char* key, int base) {
  const char* const found = std::strstr(line, key);
  if (found == nullptr) return -1;
  const char* at = found + std::strlen(key);
  while (*at == ' ') ++at;
  int64_t value = 0;
  const char* const first = at;
  for (;; ++at) {
    const int digit = *at >= '0' && *at <= '9'   ? *at - '0'
                      : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                                                 : base;
    if (digit >= base) return at == first ? -1 : value;
    value = value * base + digit;
  }
}

// "tfd: 20 events: 19 data: 7f00 pos:0 ino:3735c sdev:8". The inode tells whether the number is
// still the file that is in the set.
void TakeLine(const char* line) {
  const int64_t descriptor = NumberAfter(line, "tfd:", 10);
  const int64_t inode = NumberAfter(line, "ino:", 16);
  struct stat file;
  if (descriptor < 0 || inode < 0 || fstat(static_cast<int>(descriptor), &file) != 0) return;
  if (!S_ISSOCK(file.st_mode) || file.st_ino != static_cast<ino_t>(inode)) return;
  sockaddr_storage name;
  socklen_t bytes = sizeof name;
  if (getsockname(static_cast<int>(descriptor), reinterpret_cast<sockaddr*>(&name), &bytes) != 0) {
    return;
  }
  if (name.ss_family == AF_INET || name.ss_family == AF_INET6) {
    Replace(static_cast<int>(descriptor));
  }
}

void ReplaceSocketsOf(int set) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set);
  const int info = open(path, O_RDONLY | O_CLOEXEC);
  if (info < 0) return;
  char chunk[kChunkBytes], line[kLineBytes];
  size_t length = 0;
  for (ssize_t bytes = 0; (bytes = read(info, chunk, sizeof chunk)) > 0;) {
    for (ssize_t i = 0; i < bytes; ++i) {
      if (chunk[i] != '\n') {
        if (length + 1 < sizeof line) line[length++] = chunk[i];
        continue;
      }
      line[length] = '\0';
      length = 0;
      TakeLine(line);
    }
  }
  close(info);
}

void InChild() {
  for (const std::atomic<int>& set : sets) {
    if (const int descriptor = set.load() - 1; descriptor >= 0) ReplaceSocketsOf(descriptor);
  }
}

}  // namespace

std::vector<int> EpollSets() {
  std::vector<int> found;
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    const int descriptor = std::atoi(entry->d_name);  // "." and ".." are 0, which is looked at too
    if (IsEpollSet(descriptor)) found.push_back(descriptor);
  }
  closedir(directory);
  std::sort(found.begin(), found.end());
  return found;
}

void GuardEpollSetsSince(const std::vector<int>& before) {
  static const int registered = pthread_atfork(nullptr, nullptr, InChild);
  if (registered != 0) return;  // no memory for the handler: children keep the sockets
  absl::MutexLock lock(sets_mutex);
  for (const int set : EpollSets()) {
    if (std::binary_search(before.begin(), before.end(), set)) continue;
    const auto place_of = [](int value) {
      return std::find_if(std::begin(sets), std::end(sets),
                          [=](const auto& place) { return place.load() == value; });
    };
    if (place_of(set + 1) != std::end(sets)) continue;  // a session that opened beside this one
    if (const auto free = place_of(0); free != std::end(sets)) free->store(set + 1);
  }
}

void ForgetClosedEpollSets() {
  absl::MutexLock lock(sets_mutex);
  for (std::atomic<int>& set : sets) {
    const int value = set.load();
    if (value != 0 && !IsEpollSet(value - 1)) set.store(0);
  }
}

}  // namespace ringwood
