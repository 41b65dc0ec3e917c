#include "launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace ringwood {
namespace {

bool Ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

SignalDescriptor::SignalDescriptor(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) {
    if (signal != SIGHUP || !Ignored(signal)) sigaddset(&set, signal);
  }
  RW_CHECK(::pthread_sigmask(SIG_BLOCK, &set, &before_) == 0);
  descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  RW_CHECK(descriptor_ >= 0);
}

SignalDescriptor::~SignalDescriptor() {
  while (Next() != 0) {  // pending ones would strike with the mask: SIGPIPE of a write that failed
  }
  ::close(descriptor_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int SignalDescriptor::Next() {
  signalfd_siginfo info;
  return ::read(descriptor_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                                  : 0;
}

bool SignalDescriptor::Has(std::initializer_list<int> signals) const {
  sigset_t pending;
  RW_CHECK(::sigpending(&pending) == 0);
  return std::any_of(signals.begin(), signals.end(),
                     [&](int signal) { return sigismember(&pending, signal) == 1; });
}

}  // namespace ringwood
