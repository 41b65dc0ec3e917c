// The certificates of the processes that `ringwood run` starts: issued when a host is asked to
// start them, renewed while they run. Time comes in as an argument (Unix time).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "identity/authority.h"

namespace ringwood {

class Certificates {
 public:
  // A host that is cut off from its launcher for two thirds of this goes on with an expired one:
  // its connections stay, new ones are refused.
  static constexpr int64_t kLifeSeconds = 24 * 3600;
  // Clocks of the hosts may differ by so much.
  static constexpr int64_t kClockSeconds = 600;

  // Of the job of this name. No authority: none are issued.
  Certificates(std::shared_ptr<const Authority> authority, std::string job)
      : authority_(std::move(authority)), job_(std::move(job)) {}

  bool on() const { return authority_ != nullptr; }
  const std::string& authority() const { return authority_->certificate(); }  // where it is on

  // The certificate of this member of the launcher's, which from now on is renewed. Where it is on.
  StatusOr<Leaf> Issue(int member, IdentityRole role, int number, int64_t now);

  // Renews what is due, and hands each new certificate (PEM) over. One that cannot be renewed now
  // is tried again a minute later.
  void Renew(int64_t now,
             const std::function<void(int member, const std::string& certificate)>& hand_over);

 private:
  struct Issued {
    IdentityName name;
    std::string key;
    int64_t due = 0;
  };

  const std::shared_ptr<const Authority> authority_;
  const std::string job_;
  std::map<int, Issued> issued_;  // by member
  int64_t next_due_ = 0;          // the first of them; 0: nothing
};

}  // namespace ringwood
