// The last 4096 events of a rank in a memory-mapped file: the kernel keeps what was written however
// the process ends, kill -9 included (a power cut may lose it).
//
// Layout, little endian: a header of 4096 bytes, then 4096 slots of 48 bytes. A slot's sequence
// number is cleared before its event is written and set after it, so that a reader detects a slot
// that was cut in the middle. Each slot has a checksum, so that a reader detects damage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "timeline/event.h"

namespace ringwood {

inline constexpr size_t kFlightEvents = 4096;

struct FlightHeader {
  uint64_t job = 0;
  uint64_t epoch = 0;
  uint32_t rank = 0;
  uint32_t world = 0;
  int64_t process = 0;
  int64_t unix_nanoseconds = 0;       // when the record began
  int64_t monotonic_nanoseconds = 0;  // of the same moment
  std::string host;                   // at most 255 bytes are kept
  std::string failure;                // why the epoch ended here, "" if it did not; at most 1023
};

class FlightRecord {
 public:
  // Takes the place of what is at `file`, or of the file that it links to. Who has that open keeps
  // it; a reader that opens `file` sees the old record or the new one.
  static StatusOr<FlightRecord> Create(const std::string& file);
  FlightRecord(FlightRecord&& other) noexcept;
  FlightRecord& operator=(FlightRecord&&) = delete;
  ~FlightRecord();  // the file stays

  void Begin(const FlightHeader& header);       // one thread; clock fields are filled in here
  void Write(const TimelineEvent& event);       // any thread, lock-free
  void SetFailure(const std::string& failure);  // only the first is kept; any thread

 private:
  explicit FlightRecord(void* memory) : memory_(memory) {}
  void* memory_;  // shared mapping of the whole file
};

struct FlightContents {
  FlightHeader header;
  std::vector<TimelineEvent> events;  // oldest first
  uint64_t lost = 0;     // older ones that were overwritten, and slots cut in the middle
  uint64_t damaged = 0;  // with a wrong checksum; left out
};

// The file is untrusted input: kDataLoss says what is wrong with it. Damaged events are counted;
// while the record is being written, the newest events may be among them.
StatusOr<FlightContents> ReadFlight(const std::string& file);

// One line per event, with times relative to the last one.
std::string ToText(const FlightContents& contents);

}  // namespace ringwood
