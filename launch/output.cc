#include "launch/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log_line.h"

namespace ringwood {
namespace {

constexpr size_t kAtOnce = 4096;  // PIPE_BUF: poll() promises that so much can be written

std::string LastState(std::string line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  const size_t cr = line.rfind('\r');
  return cr == std::string::npos ? line : line.substr(cr + 1);
}

// Without its newline.
std::string JsonLine(const std::string& who, const char* event, const std::string& text,
                     LogLevel level = LogLevel::kInfo) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string line =
      FormatLogLine({.level = level, .who = who, .event = event, .unix_seconds = now, .text = text},
                    LogFormat::kJson);
  line.pop_back();
  return line;
}

// A name that somebody else may have put there, in a directory that several people write into, must
// not lead elsewhere: no link is followed, no pipe is waited for.
StatusOr<int> OpenLog(const std::string& path) {
  const int file = ::open(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  const int number = errno;
  struct stat state {};
  if (file >= 0 && ::fstat(file, &state) == 0 && S_ISREG(state.st_mode)) return file;
  if (file >= 0) ::close(file);
  return Invalid(absl::StrFormat("--output-filename: cannot write %s: %s", path,
                                 file >= 0         ? "it is not a regular file"
                                 : number == ELOOP ? "it is a symbolic link, which is not followed"
                                                   : strerror(number)));
}

// Where they are, what is written to the one may land in the middle of a line of the other.
bool AreOnePlace(int out, int err) {
  struct stat one {};
  struct stat other {};
  return ::fstat(out, &one) == 0 && ::fstat(err, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

std::vector<std::string> LineCutter::Feed(const std::string& bytes) {
  std::vector<std::string> lines;
  pending_ += bytes;
  size_t at = 0;
  for (size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', at)) {
    lines.push_back(LastState(pending_.substr(at, end - at)));
    at = end + 1;
  }
  pending_.erase(0, at);
  if (pending_.size() > kMaxLine) {
    const size_t cr = pending_.rfind('\r');
    if (cr != std::string::npos && cr > 0) pending_.erase(0, cr);
  }
  if (pending_.size() > kMaxLine) lines.push_back(Rest());
  return lines;
}

std::string LineCutter::Rest() {
  std::string rest;
  rest.swap(pending_);
  return LastState(rest);
}

Output::Output(const OutputOptions& options)
    : options_(options),
      one_place_(AreOnePlace(options.out, options.err)),
      sinks_{{.descriptor = options.out}, {.descriptor = options.err}} {}

Output::~Output() { CloseFiles(); }

void Output::CloseFiles() {
  for (auto& speaker : speakers_) {
    if (speaker->file >= 0) ::close(speaker->file);
  }
  speakers_.clear();
}

Status Output::Open(const std::vector<Voice>& voices) {
  CloseFiles();
  for (const Voice& voice : voices) {
    speakers_.push_back(std::make_unique<Speaker>());
    speakers_.back()->voice = voice;
    if (options_.file_prefix.empty()) continue;
    const std::string path = absl::StrFormat("%s.%s.log", options_.file_prefix, voice.file);
    RW_ASSIGN_OR_RETURN(speakers_.back()->file, OpenLog(path));
  }
  return OkStatus();
}

void Output::Begin(size_t voice) { speakers_[voice]->tail.clear(); }

void Output::Take(size_t voice, bool error, const std::string& bytes) {
  Speaker& speaker = *speakers_[voice];
  if (speaker.file >= 0) Record(&speaker, bytes);
  for (const std::string& line : speaker.all.Feed(bytes)) Remember(&speaker, line);
  if (speaker.voice.prefix.empty() && !(error && options_.json)) {
    return PutRaw(SinkOf(error), bytes);
  }
  for (const std::string& line : speaker.lines[error].Feed(bytes)) {
    PutVoiced(speaker, error, line);
  }
}

void Output::PutVoiced(const Speaker& speaker, bool error, const std::string& line) {
  Sink* const sink = SinkOf(error);
  if (!error || !options_.json) return PutLine(sink, speaker.voice.prefix + line);
  const bool is_json = line.rfind(kJsonLineOpening, 0) == 0;
  PutLine(sink, is_json ? line : JsonLine(speaker.voice.name, "output", line));
}

void Output::Close(size_t voice) {
  Speaker& speaker = *speakers_[voice];
  if (const std::string rest = speaker.all.Rest(); !rest.empty()) Remember(&speaker, rest);
  for (bool error : {false, true}) {
    const std::string rest = speaker.lines[error].Rest();
    if (!rest.empty()) PutVoiced(speaker, error, rest);
  }
}

void Output::Say(const std::string& text, LogLevel level) {
  PutLine(SinkOf(true), options_.json ? JsonLine("launcher", "launcher", text, level) : text);
}

std::vector<std::string> Output::Tail(size_t voice) const {
  const auto& tail = speakers_[voice]->tail;
  return {tail.begin(), tail.end()};
}

// A full disk must not stop the training: the terminal still has what the file lacks.
void Output::Record(Speaker* speaker, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(speaker->file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) {
      done += count;
      continue;
    }
    const char* const why = strerror(errno);
    if (!std::exchange(speaker->file_lacks, true)) {
      Say(absl::StrFormat("ringwood: %s.%s.log lacks some of the output: %s; the terminal has all "
                          "of it, and the file what comes when there is room",
                          options_.file_prefix, speaker->voice.file, why),
          LogLevel::kWarning);
    }
    return;
  }
}

void Output::Remember(Speaker* speaker, const std::string& line) {
  speaker->tail.push_back(line);
  if (speaker->tail.size() > kTailLines) speaker->tail.pop_front();
}

void Output::PutLine(Sink* sink, const std::string& line) {
  // A bar of rank 0's may stand on this line: it stays, and ours begins on the next.
  Put(sink, (sink->midline ? "\n" : "") + line + "\n");
  if (std::exchange(sink->midline, false)) sink->ended = true;
}

// print() of an unbuffered Python is two writes, the text and the end of its line. What comes
// between them has ended that line already.
void Output::PutRaw(Sink* sink, const std::string& bytes) {
  if (bytes.empty()) return;
  const bool again = std::exchange(sink->ended, false) && bytes.front() == '\n';
  Put(sink, bytes.substr(again));
  sink->midline = bytes.back() != '\n';
}

void Output::Put(Sink* sink, const std::string& bytes) {
  if (!sink->dead) sink->pending += bytes;
}

bool Output::Full() const {
  return sinks_[0].pending.size() > kMaxPending || sinks_[1].pending.size() > kMaxPending;
}

bool Output::Pending() const { return !sinks_[0].pending.empty() || !sinks_[1].pending.empty(); }

std::vector<int> Output::Descriptors() const {
  std::vector<int> descriptors;
  for (const Sink& sink : sinks_) {
    if (!sink.pending.empty()) descriptors.push_back(sink.descriptor);
  }
  return descriptors;
}

void Output::Flush() {
  for (Sink& sink : sinks_) {
    size_t done = 0;
    while (done < sink.pending.size()) {
      pollfd out = {sink.descriptor, POLLOUT, 0};
      if (::poll(&out, 1, 0) <= 0) break;
      const size_t size = std::min(kAtOnce, sink.pending.size() - done);
      const ssize_t count = ::write(sink.descriptor, sink.pending.data() + done, size);
      if (count < 0 && errno != EAGAIN && errno != EINTR) sink.dead = true;  // the reader is gone
      if (count <= 0) break;
      done += count;
    }
    sink.pending.erase(0, sink.dead ? std::string::npos : done);
  }
}

void Output::Drop() {
  for (Sink& sink : sinks_) sink.pending.clear();
}

}  // namespace ringwood
