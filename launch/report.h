// What `ringwood worker -` tells the launcher, as frames on its standard output:
//
//   kind (1 byte) | slot (4, little endian) | length (4, little endian) | payload
//
// A login shell may print a greeting before the first frame, so the stream starts with kOpening,
// and what comes before it is not a report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace ringwood {

enum class ReportKind : uint8_t {
  kHello = 'h',    // payload: "ADDRESS PORT", the host's and the one kept for MASTER_PORT, or 0
  kStarted = 's',  // payload: process id
  kOutput = 'o',   // payload: bytes of standard output
  kError = 'e',    // payload: bytes of standard error
  kEnded = 'x',    // payload: "CODE SIGNAL STOPPED"
  kAlive = 'a',    // the answer to "ping"; no payload
  kFailed = 'f',   // the worker itself failed; payload: "CODE MESSAGE" (absl::StatusCode)
};

struct Report {
  ReportKind kind = ReportKind::kHello;
  uint32_t slot = 0;
  std::string payload;
};

inline constexpr char kOpening[] = "\nringwood worker 2\n";
inline constexpr size_t kMaxReportBytes = 64 << 10;

// payload at most kMaxReportBytes.
std::string Encode(const Report& report);

class ReportReader {
 public:
  // Most bytes before the opening that are kept for messages: greetings and error texts are short.
  static constexpr size_t kMaxForeign = 4096;

  // Calls `sink` for each complete report. Corrupt: the stream is not a worker's.
  Status Feed(const std::string& bytes, const std::function<void(const Report&)>& sink);

  bool opened() const { return opened_; }

  // What came before the opening (output of the remote shell).
  const std::string& foreign() const { return foreign_; }

 private:
  bool opened_ = false;
  std::string foreign_;
  std::string pending_;
};

}  // namespace ringwood
