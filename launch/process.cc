#include "launch/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/clock.h"

namespace ringwood {
namespace {

constexpr double kDeathSeconds = 2;  // of a process that was killed
constexpr int kDeathPauseMicroseconds = 1000;

void CloseOne(int* descriptor) {
  if (*descriptor >= 0) ::close(*descriptor);
  *descriptor = -1;
}

// Closes what nobody has taken.
struct Pipe {
  Pipe() = default;
  Pipe(Pipe&& other) noexcept { *this = std::move(other); }
  Pipe& operator=(Pipe&& other) noexcept {
    std::swap(read, other.read);
    std::swap(write, other.write);
    return *this;
  }
  ~Pipe() {
    CloseOne(&read);
    CloseOne(&write);
  }

  int read = -1;
  int write = -1;
};

StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Exhausted(absl::StrFormat("cannot make a pipe: %s (see ulimit -n)", strerror(errno)));
  }
  Pipe pipe;
  pipe.read = ends[0];
  pipe.write = ends[1];
  return pipe;
}

void SetNonBlocking(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

// Everything the child needs, made before fork: between fork and exec only async-signal-safe calls.
struct ChildPlan {
  mutable std::vector<char*> argv;
  mutable std::vector<char*> environment;
  std::vector<std::string> storage;
  std::string directory;
  pid_t parent = -1;
  bool die_with_parent = false;
  int file_mask = -1;
  int input = -1, output = -1, error = -1;  // output, error -1: ours
};

// What went wrong in the child, through the pipe that exec closes.
struct Failure {
  int number = 0;
  bool directory = false;
};

[[noreturn]] void RunChild(const ChildPlan& plan, int failure_pipe) {
  ::setpgid(0, 0);
  if (plan.die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127);  // it died between fork and prctl
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGXFSZ}) ::signal(number, SIG_DFL);
  if (plan.file_mask >= 0) ::umask(static_cast<mode_t>(plan.file_mask));
  ::dup2(plan.input, STDIN_FILENO);
  if (plan.output >= 0) ::dup2(plan.output, STDOUT_FILENO);
  if (plan.error >= 0) ::dup2(plan.error, STDERR_FILENO);
  Failure failure;
  if (!plan.directory.empty() && ::chdir(plan.directory.c_str()) != 0) {
    failure = {errno, true};
  } else {
    ::environ = plan.environment.data();  // execvp looks the command up on this PATH
    ::execvp(plan.argv[0], plan.argv.data());
    failure = {errno, false};
  }
  [[maybe_unused]] ssize_t written = ::write(failure_pipe, &failure, sizeof(failure));
  ::_exit(127);
}

ChildPlan MakeChildPlan(const ProcessOptions& options) {
  ChildPlan plan;
  for (const auto& [name, value] : options.environment) plan.storage.push_back(name + "=" + value);
  const size_t variables = plan.storage.size();
  plan.storage.insert(plan.storage.end(), options.command.begin(), options.command.end());
  for (size_t i = 0; i < plan.storage.size(); ++i) {
    (i < variables ? plan.environment : plan.argv).push_back(plan.storage[i].data());
  }
  plan.environment.push_back(nullptr);
  plan.argv.push_back(nullptr);
  plan.directory = options.directory;
  plan.die_with_parent = options.die_with_parent;
  plan.file_mask = options.file_mask;
  plan.parent = ::getpid();
  return plan;
}

Status SpawnError(const ProcessOptions& options, const Failure& failure) {
  if (failure.directory) {
    return Invalid(absl::StrFormat("cannot start in the directory %s: %s", options.directory,
                                   strerror(failure.number)));
  }
  return NotFound(absl::StrFormat("cannot start \"%s\": %s; check the command and the PATH",
                                  options.command[0], strerror(failure.number)));
}

}  // namespace

StatusOr<std::unique_ptr<Process>> Process::Spawn(const ProcessOptions& options) {
  if (options.command.empty()) return Invalid("there is no command to start");
  std::unique_ptr<Process> process(new Process);
  ChildPlan plan = MakeChildPlan(options);
  RW_ASSIGN_OR_RETURN(Pipe failure_pipe, MakePipe());
  Pipe input, output, error;
  if (options.feed) {
    RW_ASSIGN_OR_RETURN(input, MakePipe());
  } else {
    input.read = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input.read < 0) {  // else the child would read what is ours
      return Exhausted(
          absl::StrFormat("cannot open /dev/null: %s (see ulimit -n)", strerror(errno)));
    }
  }
  if (!options.inherit_output) {
    RW_ASSIGN_OR_RETURN(output, MakePipe());
  }
  if (!options.inherit_error) {
    RW_ASSIGN_OR_RETURN(error, MakePipe());
  }
  plan.input = input.read;
  plan.output = output.write;
  plan.error = error.write;
  process->leave_group_ = options.leave_group;
  process->pid_ = ::fork();
  if (process->pid_ == 0) RunChild(plan, failure_pipe.write);
  const int no_fork = process->pid_ < 0 ? errno : 0;
  if (no_fork == 0) ::setpgid(process->pid_, process->pid_);  // whichever of the two comes first
  for (int* end : {&failure_pipe.write, &input.read, &output.write, &error.write}) CloseOne(end);
  process->input_ = std::exchange(input.write, -1);
  process->output_ = std::exchange(output.read, -1);
  process->error_ = std::exchange(error.read, -1);
  Failure failure;
  const bool failed =
      no_fork == 0 && ::read(failure_pipe.read, &failure, sizeof(failure)) == sizeof(failure);
  if (no_fork != 0) {
    process->ended_ = true;
    return Exhausted(absl::StrFormat(
        "no further process can be made: %s (has this user too many, see ulimit -u, or is memory "
        "short?)",
        strerror(no_fork)));
  }
  if (failed) return SpawnError(options, failure);
  for (int end : {process->input_, process->output_, process->error_}) {
    if (end >= 0) SetNonBlocking(end);
  }
  return process;
}

Process::~Process() {
  CloseInput();
  CloseOutput();
  CloseError();
  if (ended_ || pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  // It cannot refuse that, but is held up while the kernel waits for a disk or a device for it, or
  // a tracer holds it. Then it is left behind: it ends when it can, and is reaped when we have.
  const TimePoint deadline = Now() + Seconds(kDeathSeconds);
  while (::waitpid(pid_, nullptr, WNOHANG) == 0 && Now() < deadline) {
    ::usleep(kDeathPauseMicroseconds);
  }
}

void Process::CloseInput() { CloseOne(&input_); }
void Process::CloseOutput() { CloseOne(&output_); }
void Process::CloseError() { CloseOne(&error_); }

void Process::Signal(int signal) {
  if (!ended_) ::kill(-pid_, signal);
}

bool Process::Ended() {
  if (ended_) return true;
  siginfo_t info{};
  if (::waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_) {
    return false;
  }
  // Before the reaping, while the group's number is surely ours.
  if (!leave_group_) ::kill(-pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ended_ = true;
  ending_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  ending_.code = WIFSIGNALED(status) ? 128 + ending_.signal : WEXITSTATUS(status);
  return true;
}

bool Process::Stopped() const {
  if (ended_) return false;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return false;
  bool stopped = false;
  while (const dirent* entry = ::readdir(directory)) {
    if (std::atoi(entry->d_name) <= 0) continue;
    std::ifstream file(absl::StrFormat("/proc/%s/stat", entry->d_name));
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');  // "PID (NAME) STATE PARENT GROUP …"
    if (name_end == std::string::npos) continue;
    char state = 0;
    int parent = 0, group = 0;
    std::istringstream(text.substr(name_end + 1)) >> state >> parent >> group;
    if (state == 'T' && group == pid_) stopped = true;
  }
  ::closedir(directory);
  return stopped;
}

std::string ReadSome(int descriptor, size_t limit, bool* end) {
  std::string bytes(limit, '\0');
  const ssize_t count = ::read(descriptor, bytes.data(), limit);
  *end = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  bytes.resize(count > 0 ? count : 0);
  return bytes;
}

}  // namespace ringwood
