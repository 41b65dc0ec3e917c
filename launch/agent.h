// `ringwood worker -`: starts one host's processes, forwards what they print, and never outlives
// the launcher. One thread, one poll loop.
//
// Standard input carries the job (one line of JSON), then words, one a line: "stop" (SIGTERM to
// all), "kill" (SIGKILL), "kill N" (to slot N alone), "end-stopped" (SIGKILL to those in a stop),
// "ping" (answered), "renew N HEX" (slot N's new certificate, PEM in hexadecimal digits). Its end,
// or silence for longer than the job says, means that the launcher cannot be reached any more:
// everything is killed at once. Standard output carries reports (report.h). A launcher that died
// without a word leaves its temporary store to the worker on its own host, which removes it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/job.h"
#include "launch/keys/key_folder.h"
#include "launch/network.h"
#include "launch/orphans.h"
#include "launch/process.h"
#include "launch/report.h"
#include "launch/signals.h"

namespace ringwood {

struct AgentOptions {
  int input = 0;
  int output = 1;
  Environment environment;  // what the processes inherit
};

class Agent {
 public:
  // Most bytes that wait for the launcher. Beyond it the processes' output is not read, so that
  // they block in their writes.
  static constexpr size_t kMaxPending = 1 << 20;

  explicit Agent(const AgentOptions& options);
  ~Agent();

  // Returns the exit code of the first process that failed, 0 if all succeeded.
  int Run();

 private:
  struct Running {
    std::unique_ptr<Process> process;  // null: it never started, or its end was reported
    bool stopped = false;              // it was stopped (SIGSTOP) when it was asked to end
  };

  StatusOr<Job> ReadJob();
  Status Start(const Job& job);
  StatusOr<std::string> Hello(const Job& job);
  void Turn();  // waits for the next event and handles it
  void ReadWords();
  void ObeyWords();
  void Obey(const std::string& word);
  void EndStopped();
  void KillSlot(const std::string& number);
  void Renew(const std::string& slot_and_certificate);
  void Forward(size_t slot, bool error, size_t limit);
  void Reap();
  void Tell(ReportKind kind, size_t slot, const std::string& payload);
  void Flush();
  bool AllEnded() const;
  void KillAll();
  void RemoveScratch() const;

  const AgentOptions options_;
  SignalDescriptor signals_;
  Orphans orphans_;
  std::optional<KeyFolder> keys_;  // of a job with certificates
  std::vector<Running> slots_;
  std::string words_;                    // read, not yet a line
  std::string pending_;                  // reports not yet written
  std::optional<HeldPort> master_port_;  // while the job runs
  std::string scratch_;                  // made for the job, whose launcher removes it
  int launcher_ = 0;                     // whose child this is; 0: it is on another host
  TimePoint heard_;                      // when the launcher was last heard
  Duration patience_ = Duration::max();  // how long it may be silent
  bool orphaned_ = false;
  bool hung_up_ = false;  // orphaned, as the launcher's pipes ended
  int code_ = 0;
};

}  // namespace ringwood
