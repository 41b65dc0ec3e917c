// What one host has to run: a value that is sent as one line of JSON to the standard input of
// `ringwood worker -`. The token is in its environment and keys are in it, so they are in no
// command line.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "identity/authority.h"
#include "launch/hosts.h"

namespace ringwood {

// One process of the job on that host.
struct Slot {
  std::string name;  // "rank 2", "server 0"
  Environment environment;
  Leaf leaf = {};  // its certificate and key; empty: none
};

struct Job {
  // A launcher and a worker of different versions refuse each other by this number.
  static constexpr int kVersion = 4;
  // Longest line of a job: thousands of ranks on one host and a long environment fit.
  static constexpr size_t kMaxBytes = 16 << 20;

  std::string host;               // the launcher's name for it
  std::string network_interface;  // whose address the host reports; empty: loopback
  std::string port_range;         // where the ranks may listen; empty: anywhere
  bool master_port = false;       // keep a port for MASTER_PORT
  double silence_seconds = 0;     // silence of the launcher after which the worker ends; 0: never
  std::string scratch;            // a directory to make, accessible to its owner only; empty: none
  int launcher = 0;  // the launcher, where it is the worker's parent: without it `scratch` goes
  std::string directory;  // where the processes start; empty: where the worker was started
  std::vector<std::string> command;
  Environment environment;  // of all slots, on top of the worker's own
  std::vector<Slot> slots;
  std::string authority = "";  // whose certificates the slots have; empty: they have none
};

// One line, without the newline, of a job that CheckText accepts.
std::string ToJson(const Job& job);

// Invalid: an argument, a variable or a path that is not UTF-8; it is named.
Status CheckText(const Job& job);

// Checks the version and that there is something to run.
StatusOr<Job> JobFromJson(const std::string& text);

}  // namespace ringwood
