// A thread with a bounded mailbox, timers and event sources: the only place where threads are
// created.
//
// Everything a Loop owns is touched on its thread only ("touched only on loop_"), so the objects
// that live there need no locks. It sleeps in poll() when there is nothing to do and uses no CPU
// then.
#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

class Loop {
 public:
  using Task = std::function<void()>;

  // A descriptor that becomes readable when there may be work (a UCX worker).
  class Source {
   public:
    virtual ~Source() = default;
    virtual int Descriptor() const = 0;
    virtual bool Progress() = 0;  // does what can be done now; true if it did anything
    virtual bool Arm() = 0;       // true: nothing pending, the descriptor will wake us
    // How long events may wait, so that more of them are handled at once. Asked after work was
    // done; tasks and timers do not wait for it.
    virtual Duration Nap() { return Duration::zero(); }
  };

  // kBackground: work that nobody waits for. Its thread lets others of the machine go first: it
  // does not take a core from one that runs when it wakes, and has a tenth of the share.
  enum class Pace { kPrompt, kBackground };

  // Most tasks that wait; a producer that exceeds it has no bound of its own, so Post refuses.
  static constexpr size_t kMaxTasks = 1 << 16;
  // Further places for PostReserved: several for each stream of the largest world.
  static constexpr size_t kReservedTasks = 1 << 16;

  explicit Loop(std::string name, Pace pace = Pace::kPrompt);
  ~Loop();  // runs no further task, joins the thread; not from the loop's own thread

  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs `task` on the loop's thread, in order of posting. Any thread, never blocks.
  // False: the loop is stopping or the mailbox is full; the task will not run.
  bool Post(Task task);

  // Post for a notice that somebody waits for and whose kind has a bound of its own (one per epoch,
  // one per stream): it is accepted also when the mailbox is full. False: the loop is stopping, or
  // the bound of the kind was exceeded.
  bool PostReserved(Task task);

  // Posts and waits at most `timeout` for the task's status; from another thread only. After a
  // timeout the task may still run: it must own what it touches.
  Status Call(std::function<Status()> task, Duration timeout);

  static bool OnAnyThread();  // the calling thread is some loop's
  bool OnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // On the loop's thread only. `source` must outlive its Detach.
  void Attach(Source* source);
  void Detach(Source* source);
  void After(Duration delay, Task task);

 private:
  bool Push(Task task, size_t limit);  // false: stopping, or `limit` tasks wait
  void Run();
  bool RunTasks();   // true if any ran
  bool RunTimers();  // true if any ran
  bool Progress();   // true if any source did something
  bool Nap();        // false: some source wants to be woken
  void Sleep();
  void Wait(std::vector<pollfd>* fds, std::optional<Duration> limit);  // the first is wake_
  void Wake();

  const std::string name_;
  int wake_ = -1;                          // eventfd
  std::vector<Source*> sources_;           // touched only on the thread
  std::multimap<TimePoint, Task> timers_;  // touched only on the thread
  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when everything above stands
};

}  // namespace ringwood
