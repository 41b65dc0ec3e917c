// One line to standard error per call, written at once: "W rank 2: text". No levels below kInfo in
// the hot paths. The launcher prefixes and collects the lines; a library in a trainer must not.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below `level` are dropped. `who` ("rank 2", "server 0") stands before each line. Call once,
// before other threads log.
void SetLog(LogLevel level, const std::string& who);

// "debug" | "info" | "warning" | "error".
StatusOr<LogLevel> ParseLogLevel(const std::string& name);

void Log(LogLevel level, const std::string& text);  // any thread

}  // namespace ringwood
