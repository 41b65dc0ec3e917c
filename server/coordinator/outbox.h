// Collects the actions that follow from the current event, in order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/coordinator/event.h"

namespace ringwood {

class Outbox {
 public:
  static constexpr size_t kMaxLineBytes = 2000;  // of the log

  void Add(Action action) { actions_.push_back(std::move(action)); }

  // Call 0: no caller waits.
  template <typename Answer>
  void Reply(CallId call, Answer answer) {
    if (call != 0) Add(action::Reply{call, std::move(answer)});
  }
  template <typename Answer>
  void ReplyAll(const std::vector<CallId>& calls, const Answer& answer) {
    for (const CallId call : calls) Reply(call, answer);
  }
  // Stream 0: none.
  void Notify(StreamId stream, const v1::Notice& notice) {
    if (stream != 0) Add(action::Notify{stream, notice});
  }
  // `event`: one of the names of docs/logs.md.
  void Say(const char* event, const std::string& text, LogLevel level = LogLevel::kInfo) {
    Add(action::Report{event, Printable(text, kMaxLineBytes), level});
  }

  Actions Take() { return std::exchange(actions_, {}); }

 private:
  Actions actions_;
};

}  // namespace ringwood
