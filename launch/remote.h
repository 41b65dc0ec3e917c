// The launcher's end of one `ringwood worker -`: started directly here, or through the remote
// shell.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/job.h"
#include "launch/process.h"
#include "launch/report.h"

namespace ringwood {

// How a worker is reached.
struct Reach {
  std::vector<std::string> remote_shell;  // {"ssh"}, {"ip", "netns", "exec"}
  std::string program;                    // ringwood, here
  std::string remote_program;             // ringwood, behind the remote shell
  Environment environment;                // inherited by the remote shell and local workers
  // A host whose remote shell has started no worker by then counts as lost; 0: it may take as long
  // as it likes.
  double start_seconds = 0;
};

class Remote {
 public:
  // One descriptor that the run's poll loop waits for.
  struct Stream {
    int descriptor;
    short events;
  };

  // Starts it and hands it the job. `first_member`: the run's number of the job's slot 0; the slots
  // are consecutive.
  static StatusOr<std::unique_ptr<Remote>> Start(const Reach& reach, const Job& job,
                                                 int first_member);

  std::vector<Stream> Streams(bool read) const;  // read false: what it prints has to wait

  // Does what can be done without waiting. Call it every second, so that both ends hear of each
  // other. `sink` gets each report; slots are the job's. After an error the connection is unusable,
  // and what ran there counts as lost.
  Status Progress(bool read, const std::function<void(const Report&)>& sink);

  void Say(const std::string& word);  // "stop", "kill"
  // Makes the worker kill what is left of its processes and end.
  void HangUp();
  bool Gone() const { return process_->output() < 0; }  // the worker has ended
  // Cuts the connection. On this machine also ends the processes that a dead worker left.
  void Cut();

  int first_member() const { return first_member_; }
  int members() const { return members_; }
  // The time by which what ran there has ended in any case: without pings the worker gives up.
  TimePoint over() const;
  const std::string& host() const { return host_; }

 private:
  Remote() = default;
  Status Lost() const;
  std::string Said() const;  // what the remote shell printed, without its end of line
  void Ping(bool read);
  Status Silence(bool read);
  Status Started();  // Unavailable, once: the remote shell hangs

  std::string host_;
  std::string command_;  // for messages
  bool local_ = false;
  int first_member_ = 0;
  int members_ = 0;
  std::unique_ptr<Process> process_;
  ReportReader reader_;
  std::string pending_;         // words not yet written
  std::vector<pid_t> pids_;     // of the slots, as reported; 0: ended
  bool lost_ = false;           // said once
  double silence_seconds_ = 0;  // silence after which the worker ends by itself; 0: never
  double start_seconds_ = 0;    // as in Reach; 0 on this machine, too
  bool answered_ = true;        // the last ping
  TimePoint started_, pinged_, heard_;
  std::string words_;  // the end of what it wrote to standard error
};

}  // namespace ringwood
