#include "base/loop.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "base/log.h"

namespace ringwood {
namespace {

// After the last bit of work a loop polls its sources this often before it sleeps. More (6, 20)
// cost 3 to 9 % of a long tensor's processor time and made 4 KiB no faster (docs/performance.md).
constexpr int kSpins = 2;

constexpr int kBackgroundNice = 10;  // above the process's own: a tenth of the CPU weight

// Lowers the calling thread's priority, which any process may do.
void GoBehindOthers() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
  const auto self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kBackgroundNice);
}

thread_local bool on_loop = false;

}  // namespace

Loop::Loop(std::string name, Pace pace)
    : name_(std::move(name)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  RW_CHECK(wake_ >= 0);
  try {
    thread_ = std::thread([this, pace, label = LogLabel()] {
      SetLogLabel(label);
      if (pace == Pace::kBackground) GoBehindOthers();
      pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
      Run();
    });
  } catch (const std::system_error& none) {
    close(wake_);
    throw std::system_error(none.code(),
                            "the thread " + name_ +
                                " cannot be started; raise the limits of processes and memory "
                                "(ulimit -u, ulimit -v, and those of the container)");
  }
}

Loop::~Loop() {
  RW_CHECK(!OnThread());
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  close(wake_);
}

bool Loop::Post(Task task) { return Push(std::move(task), kMaxTasks); }

bool Loop::PostReserved(Task task) { return Push(std::move(task), kMaxTasks + kReservedTasks); }

bool Loop::Push(Task task, size_t limit) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_ || tasks_.size() >= limit) return false;
    tasks_.push_back(std::move(task));
  }
  Wake();
  return true;
}

Status Loop::Call(std::function<Status()> task, Duration timeout) {
  RW_CHECK(!OnThread());
  struct Answer {
    absl::Notification done;
    Status status;
  };
  auto answer = std::make_shared<Answer>();
  const bool posted = PostReserved([answer, task = std::move(task)] {  // one a waiting thread
    answer->status = task();
    answer->done.Notify();
  });
  if (!posted) return Unavailable("the " + name_ + " loop is stopping or its mailbox is full");
  if (!answer->done.WaitForNotificationWithTimeout(absl::FromChrono(timeout))) {
    return TimedOut("the " + name_ + " loop did not answer in time");
  }
  return answer->status;
}

void Loop::Attach(Source* source) {
  RW_CHECK(OnThread());
  sources_.push_back(source);
}

void Loop::Detach(Source* source) {
  RW_CHECK(OnThread());
  sources_.erase(std::remove(sources_.begin(), sources_.end(), source), sources_.end());
}

void Loop::After(Duration delay, Task task) {
  RW_CHECK(OnThread());
  timers_.emplace(Now() + delay, std::move(task));
}

bool Loop::OnAnyThread() { return on_loop; }

void Loop::Run() {
  on_loop = true;
  int idle = 0;
  bool rested = true;  // since it last had work
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) break;
    }
    const bool ran = RunTasks();
    const bool fired = RunTimers();
    const bool moved = Progress();
    if (ran || fired || moved) {
      idle = 0;
      rested = false;
      continue;
    }
    if (!std::exchange(rested, true) && Nap()) continue;
    if (++idle < (sources_.empty() ? 1 : kSpins)) continue;
    Sleep();
    idle = 0;
  }
}

bool Loop::RunTasks() {
  std::deque<Task> batch;
  {
    absl::MutexLock lock(&mutex_);
    batch.swap(tasks_);
  }
  for (Task& task : batch) task();
  return !batch.empty();
}

bool Loop::RunTimers() {
  bool any = false;
  const TimePoint now = Now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
    any = true;
  }
  return any;
}

bool Loop::Progress() {
  bool any = false;
  const std::vector<Source*> sources = sources_;  // a source may detach itself while it progresses
  for (Source* source : sources) {
    if (std::find(sources_.begin(), sources_.end(), source) != sources_.end())
      any |= source->Progress();
  }
  return any;
}

bool Loop::Nap() {
  std::optional<Duration> nap;
  for (Source* source : sources_) nap = std::min(nap.value_or(Duration::max()), source->Nap());
  if (!nap || *nap <= Duration::zero()) return false;
  std::vector<pollfd> fds{{wake_, POLLIN, 0}};
  Wait(&fds, nap);
  return true;
}

void Loop::Sleep() {
  std::vector<pollfd> fds{{wake_, POLLIN, 0}};
  for (Source* source : sources_) {
    if (!source->Arm()) return;  // something arrived meanwhile
    fds.push_back({source->Descriptor(), POLLIN, 0});
  }
  Wait(&fds, std::nullopt);
}

void Loop::Wait(std::vector<pollfd>* fds, std::optional<Duration> limit) {
  if (!timers_.empty()) {
    const Duration left = std::max(Duration::zero(), timers_.begin()->first - Now());
    limit = std::min(limit.value_or(left), left);
  }
  timespec wait{};
  if (limit) wait = {limit->count() / 1'000'000'000, limit->count() % 1'000'000'000};
  ppoll(fds->data(), fds->size(), limit ? &wait : nullptr, nullptr);
  if (fds->front().revents == 0) return;
  uint64_t count;
  [[maybe_unused]] ssize_t drained = read(wake_, &count, sizeof count);
}

void Loop::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof one);
}

}  // namespace ringwood
