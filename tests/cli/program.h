// The ringwood program as tests see it: arguments in, exit code and text out, and a look at what it
// left behind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/process.h"
#include "paths.h"

namespace ringwood {

inline const std::string kProgram = std::string(RINGWOOD_BINARY_DIR) + "/bin/ringwood";

// A word that stands in a command line of this test only: to find its processes. "sleep 100.NNN"
// counts as a number for sleep.
std::string UniqueSeconds();

// Processes whose command line has `word` in it.
std::vector<pid_t> ProcessesWith(const std::string& word);

// Waits until none or some are left; false after kSeconds of Program.
bool WaitUntilGone(const std::string& word);
bool WaitUntilThere(const std::string& word, size_t count);

struct Finished {
  int code = -1;  // -1: it did not end in time
  std::string out;
  std::string err;
};

class Program {
 public:
  static constexpr double kSeconds = 240;  // a busy machine needs less

  explicit Program(const std::vector<std::string>& arguments, const Environment& more = {});
  pid_t pid() const { return process_->pid(); }
  void Signal(int signal);                      // to the program alone, not to its group
  bool WaitForOutput(const std::string& text);  // on either stream
  Finished Wait(double seconds = kSeconds);

 private:
  void Read();
  std::unique_ptr<Process> process_;
  Finished finished_;
};

Finished RunProgram(const std::vector<std::string>& arguments, const Environment& more = {});

// A directory that goes when the test ends.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }
  // Writes a file there and returns its path.
  std::string Write(const std::string& name, const std::string& text,
                    bool executable = false) const;
  std::string Read(const std::string& name) const;

 private:
  std::string path_;
};

}  // namespace ringwood
