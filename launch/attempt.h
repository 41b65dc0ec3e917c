// One life of a job: from the first server's start to the last process's end.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/keys/certificates.h"
#include "launch/members.h"
#include "launch/network.h"
#include "launch/output.h"
#include "launch/remotes.h"
#include "launch/run.h"
#include "launch/signals.h"
#include "launch/supervision/supervisor.h"

namespace ringwood {

class Attempt {
 public:
  Attempt(const RunOptions& options, SignalDescriptor* signals, Output* output);

  Verdict Run();

  std::string Name(int member) const { return members_.Name(member); }
  void FlushOutput();                               // at most kLastSeconds
  std::vector<std::string> Tail(int member) const;  // the last lines of one that failed
  int restarts() const;                             // of single processes, in an elastic job
  int restarts(int member) const { return supervisor_.restarts(member); }
  // The time by which nothing of it runs any more, even on hosts that could not be told to end.
  TimePoint over() const { return remotes_.over(); }
  bool first_host_fell_silent() const { return first_host_fell_silent_; }

 private:
  static constexpr double kLastSeconds = 2;

  void Turn();
  void Carry(const std::vector<Action>& actions);
  Status Do(Action action);
  void Forget(Action action);
  Status StartRanks();
  Status StartRemote(Job job, int first_member);
  void RenewCertificates();
  void StartAgain(int member);
  void EndStuck(int member);
  void TellRanks(const std::string& word) {
    remotes_.Say(word, options_.servers, members_.count());
  }
  void Hear(Remote* remote, const Report& report);
  void HearServer(int member, const std::string& bytes);
  std::vector<int> MembersOf(const std::vector<int>& ranks) const;
  void HearServerLine(int member, const std::string& text);
  void HearListening(int member, const std::string& address);
  void HearEpoch(uint64_t epoch, const std::vector<int>& ranks);
  void HearFailed(Remote* remote, const Status& status);
  void End(int member, const Ending& ending);
  void Close(int member);  // its process has ended, or counts as ended
  void Lose(Remote* remote, const Status& status);
  void SaySetbacks();
  void ReadSignals();

  RunOptions options_;  // the context is completed as the first host reports
  SignalDescriptor* const signals_;
  Output* const output_;
  const Members members_;
  Supervisor supervisor_;
  std::map<int, std::vector<std::string>> tails_;  // of members that failed and are not back
  std::vector<LineCutter> lines_;                  // by server: its standard output
  std::optional<HeldPort> master_port_;            // where no server's worker holds it
  bool first_host_fell_silent_ = false;
  Certificates certificates_;
  Remotes remotes_;  // last: they end first
};

}  // namespace ringwood
