#include "base/files/threads.h"

#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"

namespace ringwood {

Status CheckThreads(int count) {
  absl::Notification end;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  try {
    while (static_cast<int>(threads.size()) < count) {
      threads.emplace_back([&end] { end.WaitForNotification(); });
    }
  } catch (const std::system_error&) {  // as many as there are
  } catch (const std::bad_alloc&) {
  }
  end.Notify();
  for (std::thread& thread : threads) thread.join();
  const int started = static_cast<int>(threads.size());
  if (started == count) return OkStatus();
  return Exhausted(absl::StrFormat(
      "this process may start %d more threads and needs %d: raise the limits of processes and "
      "memory (ulimit -u, ulimit -v, and those of the container)",
      started, count));
}

}  // namespace ringwood
