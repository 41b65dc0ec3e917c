// Signals as a descriptor that poll() sees, instead of handlers that interrupt.
#pragma once

#include <csignal>
#include <initializer_list>

namespace ringwood {

// Blocks `signals` for the thread (and so for a process without threads) while it lives; children
// unblock them before exec (process.cc). Signals that were not taken are dropped at its end.
// SIGHUP stays ignored where it is: that is what nohup asks for.
class SignalDescriptor {
 public:
  explicit SignalDescriptor(std::initializer_list<int> signals);
  ~SignalDescriptor();

  SignalDescriptor(const SignalDescriptor&) = delete;
  SignalDescriptor& operator=(const SignalDescriptor&) = delete;

  int descriptor() const { return descriptor_; }
  int Next();  // the next pending signal, 0: none. Never blocks.
  // Whether one of these is pending, which Next will give. Any thread.
  bool Has(std::initializer_list<int> signals) const;

 private:
  sigset_t before_;
  int descriptor_ = -1;
};

}  // namespace ringwood
