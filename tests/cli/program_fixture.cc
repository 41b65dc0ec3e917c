#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

void Pause() { ::usleep(20 * 1000); }

}  // namespace

std::string UniqueSeconds() {
  return absl::StrFormat("100.%09d", static_cast<int>(Unpredictable() % 1000000000));
}

std::vector<pid_t> ProcessesWith(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    std::ifstream file(entry.path() / "cmdline");
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().find(word) != std::string::npos) found.push_back(pid);
  }
  return found;
}

bool WaitUntilGone(const std::string& word) {
  const TimePoint deadline = Now() + Seconds(Program::kSeconds);
  while (!ProcessesWith(word).empty()) {
    if (Now() > deadline) return false;
    Pause();
  }
  return true;
}

bool WaitUntilThere(const std::string& word, size_t count) {
  const TimePoint deadline = Now() + Seconds(Program::kSeconds);
  while (ProcessesWith(word).size() < count) {
    if (Now() > deadline) return false;
    Pause();
  }
  return true;
}

Program::Program(const std::vector<std::string>& arguments, const Environment& more) {
  ProcessOptions options;
  options.command = {std::string(RINGWOOD_BINARY_DIR) + "/bin/ringwood"};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}};
  for (const auto& [name, value] : more) options.environment[name] = value;
  auto process = Process::Spawn(options);
  RW_CHECK(process.ok());  // the program is built before the tests
  process_ = std::move(*process);
}

void Program::Signal(int signal) { ::kill(process_->pid(), signal); }

void Program::Read() {
  pollfd wait[2] = {{process_->output(), POLLIN, 0}, {process_->error(), POLLIN, 0}};
  ::poll(wait, 2, 20);
  bool end = false;
  if (process_->output() >= 0) finished_.out += ReadSome(process_->output(), 65536, &end);
  if (process_->error() >= 0) finished_.err += ReadSome(process_->error(), 65536, &end);
}

bool Program::WaitForOutput(const std::string& text) {
  const TimePoint deadline = Now() + Seconds(kSeconds);
  while (Now() < deadline) {
    Read();
    if ((finished_.out + finished_.err).find(text) != std::string::npos) return true;
  }
  return false;
}

Finished Program::Wait(double seconds) {
  const TimePoint deadline = Now() + Seconds(seconds);
  while (Now() < deadline) {
    const bool ended = process_->Ended();
    Read();
    if (!ended) continue;
    for (size_t before = 0; before != finished_.out.size() + finished_.err.size();) {
      before = finished_.out.size() + finished_.err.size();
      Read();
    }
    finished_.code = process_->ending().code;
    break;
  }
  return finished_;
}

Finished RunProgram(const std::vector<std::string>& arguments, const Environment& more) {
  return Program(arguments, more).Wait();
}

TemporaryDirectory::TemporaryDirectory() {
  std::string path = std::filesystem::temp_directory_path() / "ringwood-test-XXXXXX";
  RW_CHECK(::mkdtemp(path.data()) != nullptr);
  path_ = path;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::Write(const std::string& name, const std::string& text,
                                      bool executable) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path) << text;
  if (executable) ::chmod(path.c_str(), 0755);
  return path;
}

std::string TemporaryDirectory::Read(const std::string& name) const {
  std::ifstream file(path_ + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ringwood
