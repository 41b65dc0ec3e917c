// What the user sees: rank 0's output unchanged (progress bars move), every other process line by
// line behind its name ("[2] loss 0.3"), and the last lines of each process in case it fails.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"

namespace ringwood {

// Cuts a stream into lines. Of a line that was overwritten in place ("\r") the last state remains.
class LineCutter {
 public:
  static constexpr size_t kMaxLine = 8192;  // a longer one is cut there

  std::vector<std::string> Feed(const std::string& bytes);  // whole lines, without their newline
  std::string Rest();                                       // what stood without a newline

 private:
  std::string pending_;
};

struct OutputOptions {
  int out = 1;
  int err = 2;
  std::string file_prefix;  // "log/run" → log/run.rank2.log …; empty: no files
  // Every line of standard error is an object of JSON: what is none is put into one.
  bool json = false;
};

class Output {
 public:
  static constexpr size_t kTailLines = 40;
  static constexpr size_t kMaxPending = 1 << 20;  // most bytes that wait for a blocked terminal

  explicit Output(const OutputOptions& options);
  ~Output();

  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  struct Voice {
    std::string prefix;     // "[2] "; empty: bytes pass as they are
    std::string file;       // "rank2": the name in --output-filename
    std::string name = {};  // "rank 2"
  };
  // Voices are numbered in order. Files of an earlier attempt are appended to.
  Status Open(const std::vector<Voice>& voices);

  void Begin(size_t voice);  // a new process speaks with it: its last lines are its own
  void Take(size_t voice, bool error, const std::string& bytes);
  void Close(size_t voice);  // its last line, even without a newline
  // A line of the launcher's own, on standard error. The level is that of JSON.
  void Say(const std::string& text, LogLevel level = LogLevel::kInfo);
  std::vector<std::string> Tail(size_t voice) const;

  // Writing never blocks: what the terminal does not accept waits here. Call Flush when it is
  // writable, and stop reading the processes while Full.
  bool Full() const;
  bool Pending() const;
  void Flush();
  std::vector<int> Descriptors() const;  // to poll for POLLOUT
  void Drop();                           // drops what waits: nobody reads, and we must end

 private:
  struct Sink {
    int descriptor;
    std::string pending = {};
    bool midline = false;  // a raw voice left the cursor inside a line
    bool ended = false;    // and another voice ended that line for it
    bool dead = false;
  };
  struct Speaker {
    Voice voice;
    LineCutter lines[2];
    LineCutter all;
    std::deque<std::string> tail;
    int file = -1;
    bool file_lacks = false;  // a line that it should have; told once
  };
  Sink* SinkOf(bool error) { return &sinks_[error && !one_place_]; }
  void Put(Sink* sink, const std::string& bytes);
  void PutRaw(Sink* sink, const std::string& bytes);
  void PutLine(Sink* sink, const std::string& line);
  void PutVoiced(const Speaker& speaker, bool error, const std::string& line);
  void Record(Speaker* speaker, const std::string& bytes);
  void Remember(Speaker* speaker, const std::string& line);
  void CloseFiles();

  const OutputOptions options_;
  const bool one_place_;  // both streams are one terminal, pipe or file: they share their lines
  Sink sinks_[2];
  std::vector<std::unique_ptr<Speaker>> speakers_;
};

}  // namespace ringwood
