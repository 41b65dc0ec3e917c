#include "client/updates/update_writer.h"

#include <chrono>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace ringwood {
namespace {

constexpr double kPauseSeconds = 0.1;  // between two attempts
constexpr double kCallSeconds = 120;   // a round of gigabytes to a slow disk

}  // namespace

Status UpdateWriter::Try(const RoundName& name, const RoundBody& body,
                         const std::function<bool()>& lives) {
  const TimePoint end = Now() + Seconds(kRetrySeconds);
  for (;;) {
    const Status logged = client_.load()->Log(name, body, restarts_, Seconds(kCallSeconds));
    if (logged.code() != StatusCode::kUnavailable || !lives() || Now() >= end) return logged;
    std::this_thread::sleep_for(std::chrono::duration<double>(kPauseSeconds));
  }
}

void UpdateWriter::Log(const RoundName& name, const StatusOr<RoundBody>& body,
                       const std::function<bool()>& lives) {
  if (suspended_ && !restarts_) return;
  const Status logged = body.ok() ? Try(name, *body, lives) : body.status();
  if (!lives()) return;  // the round is exchanged again, or nothing is
  restarts_ = false;
  if (logged.ok()) {
    if (std::exchange(suspended_, false)) {
      ringwood::Log(LogLevel::kWarning,
                    absl::StrFormat("the update log goes on with step %d, after the checkpoint of "
                                    "step %d",
                                    name.step, name.step - 1));
    }
    return;
  }
  if (std::exchange(suspended_, true)) return;
  ringwood::Log(LogLevel::kError,
                absl::StrFormat("UPDATE LOG ENDS before step %d: %s. Training goes on; steps after "
                                "the next checkpoint are logged again",
                                name.step, Message(logged)));
}

}  // namespace ringwood
