#include "launch/remotes.h"

#include <algorithm>

namespace ringwood {

Status Remotes::Start(const Reach& reach, const Job& job, int first_member) {
  RW_ASSIGN_OR_RETURN(auto remote, Remote::Start(reach, job, first_member));
  for (int slot = 0; slot < remote->members(); ++slot) of_[first_member + slot] = remote.get();
  all_.push_back(std::move(remote));
  return OkStatus();
}

std::vector<int> Remotes::MembersOf(const Remote* remote) const {
  std::vector<int> members;
  const int first = remote->first_member();
  for (int member = first; member < first + remote->members(); ++member) {
    if (of_[member] == remote) members.push_back(member);
  }
  return members;
}

void Remotes::AddStreams(bool read, std::vector<pollfd>* wait) const {
  for (const auto& remote : all_) {
    for (const Remote::Stream& stream : remote->Streams(read)) {
      wait->push_back({stream.descriptor, stream.events, 0});
    }
  }
}

void Remotes::Progress(bool read, const std::function<void(Remote*, const Report&)>& hear,
                       const std::function<void(Remote*, const Status&)>& lose) {
  for (size_t i = 0; i < all_.size(); ++i) {  // by index: starting more grows the list
    Remote* remote = all_[i].get();
    const Status status =
        remote->Progress(read, [&](const Report& report) { hear(remote, report); });
    if (!status.ok()) lose(remote, status);
  }
}

void Remotes::Say(const std::string& word, int first, int end) {
  for (auto& remote : all_) {
    if (remote->first_member() >= first && remote->first_member() < end) remote->Say(word);
  }
}

void Remotes::Abandon(Remote* remote) {
  over_ = std::max(over_, remote->over());
  remote->Cut();
}

void Remotes::Cut() {
  for (auto& remote : all_) remote->Cut();
}

void Remotes::HangUp(double seconds) {
  const TimePoint deadline = Now() + Seconds(seconds);
  for (auto& remote : all_) remote->HangUp();
  for (bool all = false; !all && Now() < deadline;) {
    std::vector<pollfd> wait;
    all = true;
    for (auto& remote : all_) {
      (void)remote->Progress(true, [](const Report&) {});  // its last words have been heard
      if (remote->Gone()) continue;
      all = false;
      for (const Remote::Stream& stream : remote->Streams(true)) {
        wait.push_back({stream.descriptor, stream.events, 0});
      }
    }
    if (!all) ::poll(wait.data(), wait.size(), 100);
  }
}

void Remotes::Sweep() {
  std::erase_if(all_, [this](const auto& remote) {
    return remote->Gone() && std::find(of_.begin(), of_.end(), remote.get()) == of_.end();
  });
}

TimePoint Remotes::over() const {
  TimePoint last = over_;
  for (const auto& remote : all_) last = std::max(last, remote->over());
  return last;
}

}  // namespace ringwood
