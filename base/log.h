// One line to standard error per call, written at once: "W rank 2: text", or an object of JSON with
// the name of the event. No levels below kInfo in the hot paths. The launcher prefixes and collects
// the lines; a library in a trainer must not.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringwood {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };  // --log-format

// Lines below `level` are dropped. `who` ("rank 2", "server 0") stands before each line. Call once,
// before other threads log.
void SetLog(LogLevel level, const std::string& who, LogFormat format = LogFormat::kText);

// /dev/null takes the place of standard input, output and error where they are closed. Before files
// and sockets are opened, to one of which would go what is logged.
void HoldStandardDescriptors();

// Where the process is: lines of JSON say it. Any thread. A thread with a label of its own has a
// place of its own.
void SetLogPlace(uint64_t epoch, uint64_t step);

// Of this thread, and of the loops that it makes: stands before the text of its lines, where a
// process has several jobs ("job a"). "": none; at most 71 bytes.
void SetLogLabel(const std::string& label);
std::string LogLabel();

// "debug" | "info" | "warning" | "error".
StatusOr<LogLevel> ParseLogLevel(const std::string& name);
// "text" | "json".
StatusOr<LogFormat> ParseLogFormat(const std::string& name);

// `event`: a name of docs/logs.md. Of one name a few lines in some seconds are written, and how
// many more there were (log_limit.h). Any thread, as the next.
void Log(LogLevel level, const char* event, const std::string& text);
void Log(LogLevel level, const std::string& text);  // the event "note", without a limit

}  // namespace ringwood
