// etcd for a test: three members on loopback ports of its own, in a directory of its own. It knows
// nothing of an etcd that the system may run, and ends with the test, also if that is killed.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "server/coordinator/etcd/client.h"
#include "transport/port_range.h"

namespace ringwood {

// Empty: it is not installed.
inline std::string EtcdProgram() {
  for (const char* path : {"/usr/bin/etcd", "/usr/local/bin/etcd"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return "";
}

class EtcdCluster {
 public:
  static constexpr int kMembers = 3;

  // `prefix`: of the keys. Check ready(). With TLS `served` is the folder of the members' own
  // ca.pem, cert.pem and key.pem, which ask for clients' certificates, and `caller` is the test's.
  explicit EtcdCluster(const std::string& prefix, const std::string& served = "",
                       std::shared_ptr<const HostCredentials> caller = nullptr)
      : served_(served) {
    std::string pattern = testing::TempDir() + "/ringwood-etcd-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    address_.prefix = prefix;
    address_.credentials = std::move(caller);
    for (int i = 0; i < kStarts && !ready_.ok(); ++i) Begin();
  }
  ~EtcdCluster() {
    for (int i = 0; i < kMembers; ++i) Kill(i);
    std::filesystem::remove_all(directory_);
  }

  // Or what a call was answered and what the members say.
  const Status& ready() const { return ready_; }
  const EtcdAddress& address() const { return address_; }

  void Start(int member) {
    const std::string name = "m" + std::to_string(member);
    const std::string at =
        (served_.empty() ? "http" : "https") + ("://127.0.0.1:" + std::to_string(clients_[member]));
    const std::string peer = "http://127.0.0.1:" + std::to_string(peers_[member]);
    std::string all;
    for (int i = 0; i < kMembers; ++i) {
      all += (i > 0 ? ",m" : "m") + std::to_string(i) +
             "=http://127.0.0.1:" + std::to_string(peers_[i]);
    }
    std::vector<std::string> words = {EtcdProgram(),
                                      "--name=" + name,
                                      "--data-dir=" + directory_ + "/" + name,
                                      "--listen-client-urls=" + at,
                                      "--advertise-client-urls=" + at,
                                      "--listen-peer-urls=" + peer,
                                      "--initial-advertise-peer-urls=" + peer,
                                      "--initial-cluster=" + all,
                                      "--initial-cluster-token=" + directory_,
                                      "--logger=zap",
                                      "--log-level=error",
                                      "--log-outputs=" + directory_ + "/" + name + ".log"};
    if (!served_.empty()) {
      words.push_back("--client-cert-auth");
      words.push_back("--trusted-ca-file=" + served_ + "/ca.pem");
      words.push_back("--cert-file=" + served_ + "/cert.pem");
      words.push_back("--key-file=" + served_ + "/key.pem");
    }
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    char* const environment[] = {nullptr};
    const pid_t test = getpid();
    pids_[member] = fork();
    if (pids_[member] != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(1);
    execve(arguments[0], arguments.data(), environment);
    _exit(127);
  }
  void Kill(int member) {
    if (pids_[member] <= 0) return;
    kill(pids_[member], SIGKILL);
    waitpid(pids_[member], nullptr, 0);
    pids_[member] = 0;
  }
  void Signal(int member, int signal) { kill(pids_[member], signal); }

 private:
  static constexpr int kStarts = 3;  // somebody may take a port between the look and its use

  void Begin() {
    for (int i = 0; i < kMembers; ++i) {
      Kill(i);
      std::filesystem::remove_all(directory_ + "/m" + std::to_string(i));
    }
    clients_ = FreePorts();
    peers_ = FreePorts();
    address_.endpoints.clear();
    for (int port : clients_) address_.endpoints.push_back("127.0.0.1:" + std::to_string(port));
    for (int i = 0; i < kMembers; ++i) Start(i);
    EtcdClient client(address_);
    bool ended = false;
    for (const TimePoint end = Now() + Seconds(60); !ready_.ok() && !ended && Now() < end;) {
      ready_ = client.Get("ready", Now() + Seconds(3)).status();
      for (int i = 0; i < kMembers; ++i) ended |= Ended(i);
      if (!ready_.ok()) usleep(50'000);
    }
    if (ended) ready_ = Unavailable("a member has ended");
    if (!ready_.ok()) ready_ = Unavailable(Message(ready_) + Logs());
  }

  std::string Logs() const {
    std::string text;
    for (int i = 0; i < kMembers; ++i) {
      const std::string path = directory_ + "/m" + std::to_string(i) + ".log";
      std::ifstream file(path);
      text += "\n" + path + (Ended(i) ? " (it has ended)" : "") + ":\n" +
              std::string(std::istreambuf_iterator<char>(file), {});
    }
    return text;
  }
  bool Ended(int member) const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pids_[member]), &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid != 0;
  }

  // Below those that the kernel gives to connections: one of them must not take the port of a
  // member that is down.
  static std::vector<int> FreePorts() {
    std::set<int> ports;
    while (ports.size() < kMembers) {
      const auto port = static_cast<uint16_t>(20'000 + Unpredictable() % 12'000);
      if (ProbePort("127.0.0.1", port).ok()) ports.insert(port);
    }
    return {ports.begin(), ports.end()};
  }

  const std::string served_;
  std::string directory_;
  EtcdAddress address_;
  std::vector<int> clients_;  // ports
  std::vector<int> peers_;
  std::vector<pid_t> pids_ = std::vector<pid_t>(kMembers);  // 0: not running
  Status ready_ = Unavailable("nobody asked");
};

}  // namespace ringwood
