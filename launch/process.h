// One child process: the leader of its own process group, so that a signal reaches all it started.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "launch/hosts.h"
#include "launch/supervision/ending.h"

namespace ringwood {

struct ProcessOptions {
  std::vector<std::string> command;  // looked up on the PATH of `environment`
  Environment environment;           // complete
  std::string directory;             // empty: this process's
  bool feed = false;                 // standard input is a pipe; else /dev/null
  bool inherit_output = false;       // standard output is ours; else a pipe
  bool inherit_error = false;        // the same of standard error
  int file_mask = -1;                // its umask; -1: ours
  bool leave_group = false;      // what it started may outlive it (behind a remote shell: a worker)
  bool die_with_parent = false;  // the kernel kills it when the thread that spawned it ends
};

class Process {
 public:
  // NotFound or Invalid: the command or the directory cannot be used; the message says which.
  static StatusOr<std::unique_ptr<Process>> Spawn(const ProcessOptions& options);
  ~Process();  // kills the group if it still runs, and waits a moment for its end

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  int input() const { return input_; }  // -1: closed or not a pipe; non-blocking, as the others
  int output() const { return output_; }
  int error() const { return error_; }
  void CloseInput();
  void CloseOutput();
  void CloseError();

  void Signal(int signal);  // to the group; nothing after the end

  // Never blocks. True once the process has ended; what is left of its group is killed then, unless
  // leave_group.
  bool Ended();
  const Ending& ending() const { return ending_; }
  // Whether it or one of its group is stopped (SIGSTOP, SIGTTOU, …).
  bool Stopped() const;

 private:
  Process() = default;

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  int error_ = -1;
  bool ended_ = false;
  bool leave_group_ = false;
  Ending ending_;
};

// Reads what is available, at most `limit` bytes. Empty and *end unset: nothing yet. *end: end of
// file.
std::string ReadSome(int descriptor, size_t limit, bool* end);

}  // namespace ringwood
