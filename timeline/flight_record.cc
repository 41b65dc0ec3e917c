#include "timeline/flight_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/files/replaceable.h"

namespace ringwood {
namespace {

constexpr char kMagic[8] = {'r', 'w', 'f', 'l', 'i', 'g', 'h', '2'};
constexpr size_t kHostBytes = 256;
constexpr size_t kFailureBytes = 1024;

// The content of the file. Plain memory except the counters: other processes read it later.
struct RawHeader {
  char magic[8];
  uint64_t job, epoch;
  uint32_t rank, world;
  int64_t process, unix_nanoseconds, monotonic_nanoseconds;
  std::atomic<uint64_t> next;      // sequence number of the next event
  std::atomic<uint32_t> failures;  // SetFailure was called
  uint32_t unused;
  char host[kHostBytes];
  char failure[kFailureBytes];
  uint64_t check;  // of what Begin writes: job to monotonic_nanoseconds, host
};

struct RawSlot {
  std::atomic<uint64_t> sequence;  // of its event, counted from 1; 0: none, or cut in the middle
  int64_t nanoseconds;
  uint64_t round, value;
  uint32_t index, kind;
  uint64_t check;  // of the event and its number
};

constexpr size_t kHeaderBytes = 4096;
constexpr size_t kFileBytes = kHeaderBytes + kFlightEvents * sizeof(RawSlot);
static_assert(sizeof(RawHeader) <= kHeaderBytes && sizeof(RawSlot) == 48);
static_assert(std::atomic<uint64_t>::is_always_lock_free);  // else its bytes are not the value

RawHeader* HeaderOf(void* memory) { return static_cast<RawHeader*>(memory); }
RawSlot* SlotsOf(void* memory) {
  return reinterpret_cast<RawSlot*>(static_cast<char*>(memory) + kHeaderBytes);
}

void CopyText(const std::string& text, char* out, size_t bytes) {
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

std::string TextOf(const char* text, size_t bytes) { return {text, strnlen(text, bytes)}; }

int64_t Since1970() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Unless the disk is full, an error of the system means that the file was badly chosen.
Status System(const std::string& file, const char* what) {
  const std::string text =
      absl::StrFormat("the flight record %s: %s: %s", file, what, strerror(errno));
  return errno == ENOSPC ? Exhausted(text) : Invalid(text);
}

uint64_t CheckOf(const RawHeader& header) {
  const std::byte* const begin = reinterpret_cast<const std::byte*>(&header.job);
  const std::byte* const end = reinterpret_cast<const std::byte*>(&header.next);
  return Digest({begin, end}, Digest(std::as_bytes(std::span(header.host))));
}

uint64_t CheckOf(const RawSlot& slot, uint64_t number) {
  const std::byte* const begin = reinterpret_cast<const std::byte*>(&slot.nanoseconds);
  const std::byte* const end = reinterpret_cast<const std::byte*>(&slot.check);
  return Digest({begin, end}, number);
}

}  // namespace

// A file of its own, made beside its place and renamed: a process that has the old file mapped, to
// write or to read, keeps that one. To shorten it would end that process by SIGBUS.
StatusOr<FlightRecord> FlightRecord::Create(const std::string& file) {
  const auto place = ReplaceableFile(file);
  if (!place.ok()) return Invalid("the flight record: " + Message(place.status()));
  const std::string fresh = absl::StrFormat("%s.%d.new", *place, getpid());
  unlink(fresh.c_str());
  const int descriptor =
      open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) return System(file, "it cannot be created");
  // Blocks are allocated now: a full disk is an error here and not a signal later.
  const int refused = posix_fallocate(descriptor, 0, kFileBytes);
  void* memory = MAP_FAILED;
  if (refused == 0) {
    memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  } else {
    errno = refused;
  }
  Status failed = memory == MAP_FAILED ? System(file, "it cannot be mapped") : OkStatus();
  close(descriptor);
  if (failed.ok()) {
    new (memory) RawHeader();
    std::memcpy(HeaderOf(memory)->magic, kMagic, sizeof kMagic);
    if (rename(fresh.c_str(), place->c_str()) == 0) return FlightRecord(memory);
    failed = System(file, "it cannot be renamed to its place");
    munmap(memory, kFileBytes);
  }
  unlink(fresh.c_str());
  return failed;
}

FlightRecord::FlightRecord(FlightRecord&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)) {}

FlightRecord::~FlightRecord() {
  if (memory_ != nullptr) munmap(memory_, kFileBytes);
}

void FlightRecord::Begin(const FlightHeader& header) {
  RawHeader* raw = HeaderOf(memory_);
  raw->job = header.job;
  raw->epoch = header.epoch;
  raw->rank = header.rank;
  raw->world = header.world;
  raw->process = getpid();
  raw->unix_nanoseconds = Since1970();
  raw->monotonic_nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count();
  CopyText(header.host, raw->host, sizeof raw->host);
  raw->check = CheckOf(*raw);
}

// A writer that sleeps here while 4096 others pass would share its slot with the last of them; the
// event they leave may then be a mixture. Rounds have far fewer writers at once than that.
void FlightRecord::Write(const TimelineEvent& event) {
  const uint64_t number = HeaderOf(memory_)->next.fetch_add(1, std::memory_order_relaxed);
  RawSlot& slot = SlotsOf(memory_)[number % kFlightEvents];
  slot.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.nanoseconds = event.nanoseconds;
  slot.round = event.round;
  slot.value = event.value;
  slot.index = event.index;
  slot.kind = static_cast<uint32_t>(event.kind);
  slot.check = CheckOf(slot, number);
  slot.sequence.store(number + 1, std::memory_order_release);
}

void FlightRecord::SetFailure(const std::string& failure) {
  RawHeader* raw = HeaderOf(memory_);
  if (raw->failures.fetch_add(1) == 0) CopyText(failure, raw->failure, sizeof raw->failure);
}

namespace {

// A read-only mapping of a whole flight record.
class Mapping {
 public:
  static StatusOr<Mapping> Open(const std::string& file) {
    const int descriptor = open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // no FIFO waits
    if (descriptor < 0) return NotFound(absl::StrFormat("%s: %s", file, strerror(errno)));
    const off_t bytes = lseek(descriptor, 0, SEEK_END);
    void* memory = MAP_FAILED;
    if (bytes == static_cast<off_t>(kFileBytes)) {
      memory = mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, descriptor, 0);
    }
    close(descriptor);
    if (memory == MAP_FAILED) {
      return Corrupt(
          absl::StrFormat("%s: %d bytes are not a flight record's %d", file, bytes, kFileBytes));
    }
    return Mapping(memory);
  }
  Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (memory_ != nullptr) munmap(memory_, kFileBytes);
  }
  void* memory() const { return memory_; }

 private:
  explicit Mapping(void* memory) : memory_(memory) {}
  void* memory_;
};

}  // namespace

StatusOr<FlightContents> ReadFlight(const std::string& file) {
  RW_ASSIGN_OR_RETURN(const Mapping mapping, Mapping::Open(file));
  const RawHeader* raw = HeaderOf(mapping.memory());
  if (std::memcmp(raw->magic, kMagic, sizeof kMagic) != 0) {
    return Corrupt(absl::StrFormat("%s: it does not begin like a flight record", file));
  }
  const bool begun = raw->check != 0 || raw->process != 0;
  if (begun && raw->check != CheckOf(*raw)) {
    return Corrupt(
        absl::StrFormat("%s: the record is damaged: its header does not "
                        "have its checksum",
                        file));
  }
  FlightContents contents;
  contents.header = {.job = raw->job,
                     .epoch = raw->epoch,
                     .rank = raw->rank,
                     .world = raw->world,
                     .process = raw->process,
                     .unix_nanoseconds = raw->unix_nanoseconds,
                     .monotonic_nanoseconds = raw->monotonic_nanoseconds,
                     .host = TextOf(raw->host, kHostBytes),
                     .failure = TextOf(raw->failure, kFailureBytes)};
  const uint64_t next = raw->next.load(std::memory_order_acquire);
  const uint64_t first = next > kFlightEvents ? next - kFlightEvents : 0;
  contents.lost = first;
  const RawSlot* slots = SlotsOf(mapping.memory());
  for (uint64_t number = first; number < next; ++number) {
    const RawSlot& slot = slots[number % kFlightEvents];
    const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
    if (sequence == 0) {
      ++contents.lost;  // its writer was cut in the middle
    } else if (sequence != number + 1 || slot.check != CheckOf(slot, number) ||
               slot.kind >= kTimelineKinds) {
      ++contents.damaged;
    } else {
      contents.events.push_back({slot.nanoseconds, slot.round, slot.value, slot.index,
                                 static_cast<TimelineKind>(slot.kind)});
    }
  }
  return contents;
}

}  // namespace ringwood
