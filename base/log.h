// Lines for people and launchers. The log is one line to standard error per call, written at once:
// "W rank 2: text", or an object of JSON with the name of the event. No levels below kInfo in the
// hot paths. The launcher prefixes and collects the lines; a library in a trainer must not.
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

// Opens /dev/null as standard input, output and error where they are closed. For before files and
// sockets are opened: one of them would get the number of standard error, and all that is logged.
void HoldStandardDescriptors();

// The epoch and step that lines of JSON report. Any thread; a thread with a label has its own.
void SetLogPlace(uint64_t epoch, uint64_t step);

// A label of this thread and of the loops that it makes. It stands before the text of their lines,
// in a process with several jobs ("job a"). "": none; at most 71 bytes are kept.
void SetLogLabel(const std::string& label);
std::string LogLabel();

// "debug" | "info" | "warning" | "error".
StatusOr<LogLevel> ParseLogLevel(const std::string& name);
// "text" | "json".
StatusOr<LogFormat> ParseLogFormat(const std::string& name);

// A line to standard output, for who started this process. Any thread. As a log does, it waits for
// a reader only for a moment: while a pipe is full, further lines are left out, and the log says
// how many once there is room.
void PrintLine(const std::string& line);

// `event`: a name of docs/logs.md. Only a few lines of one event are written within some seconds;
// the next one says how many were left out (log_limit.h). Any thread, as the next.
void Log(LogLevel level, const char* event, const std::string& text);
void Log(LogLevel level, const std::string& text);  // the event "note", without a limit

}  // namespace ringwood
