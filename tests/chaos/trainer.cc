// The trainer of the fault tests: a C++ rank with short steps that writes the history that
// tests/chaos/check.py reads. It sees what any trainer sees: ringwood.hpp and nothing else.
//
//   chaos_trainer HISTORY [STEP_MILLISECONDS [SAMPLES [CHECKPOINT_EVERY [STATE_MIB]]]]
//
// Gradients follow from the weights and from the samples of the step, so that equal weights prove
// equal updates. They are multiples of kUnit, so that sums are exact and nothing of a residual gets
// lost unnoticed: the history has a fingerprint of it with each step (ledger.py). SIGTERM ends the
// job in order and on all ranks after the same step: whoever got it says so in an element of the
// gradient. SIGUSR1: this rank alone leaves in order, after its next step.
//
// STATE_MIB: so much more state that a rank that comes must have, of bytes that are known.
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ringwood.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr uint64_t kBatch = 64;
constexpr uint64_t kDense = 4096;
constexpr uint64_t kSparse = 16384;
constexpr double kUnit = 0x1p-10;  // sums of a residual stay far below 2^24 of them
constexpr const char* kWeights = "weights";
constexpr const char* kCursor = "cursor";
constexpr const char* kBallast = "ballast";

volatile sig_atomic_t asked_to_end = 0;
volatile sig_atomic_t asked_to_leave = 0;

struct Settings {
  int milliseconds = 5;  // of a step
  uint64_t samples = 20000;
  uint64_t checkpoint_every = 0;
  uint64_t state_mib = 0;
};

// Of all processes of a machine, in all its namespaces.
double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

std::string Ballast(uint64_t mib) {
  std::string bytes(mib << 20, '\0');
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t word = Mix(i);
    std::memcpy(&bytes[i], &word, sizeof word);
  }
  return bytes;
}

// The fingerprint of a sum of tensors is the sum of theirs, mod 2^64, and no two tensors that a job
// meets have the same: an element is a number of units, times a random number of its own.
class Fingerprint {
 public:
  // `scale` times the values, which are multiples of kUnit but for rounding.
  uint64_t Of(const float* values, double scale = 1) const {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < factors_.size(); ++i) {
      sum += factors_[i] * static_cast<uint64_t>(std::llround(scale * values[i] / kUnit));
    }
    return sum;
  }

 private:
  static std::vector<uint64_t> Factors() {
    std::vector<uint64_t> factors(kSparse);
    for (uint64_t i = 0; i < kSparse; ++i) factors[i] = Mix(i + 1) | 1;
    return factors;
  }
  const std::vector<uint64_t> factors_ = Factors();
};

// A line an event, each one write: a kill tears the last line at most.
class History {
 public:
  explicit History(const char* path)
      : file_(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (file_ < 0) {
      std::perror(path);
      std::exit(78);
    }
  }

  void Write(const char* event, const std::string& more) {
    char head[100];
    std::snprintf(head, sizeof head, "{\"event\":\"%s\",\"time\":%.6f", event, Now());
    const std::string line = head + more + "}\n";
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::perror("the history");
      std::exit(1);
    }
  }

 private:
  const int file_;
};

std::string Field(const char* name, uint64_t value) {
  return ",\"" + std::string(name) + "\":" + std::to_string(value);
}

std::string Quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return '"' + quoted + '"';
}

class Trainer {
 public:
  Trainer(ringwood::Session* session, History* history, const Settings& settings)
      : session_(session),
        history_(history),
        settings_(settings),
        sampler_(SamplerOptions(settings, session->world())),
        ballast_(Ballast(settings.state_mib)) {
    dense_ = session->Register("dense", gradient_.data(), kDense, "dense");
    sparse_ = session->Register("sparse", gradient_.data() + kDense, kSparse, "sparse", 0.02);
    session->StateOnRequest();  // the cursor has no fixed size
    if (session->resumed()) Resume();
    history_->Write("open", Field("rank", rank_) + Field("pid", static_cast<uint64_t>(getpid())) +
                                Field("epoch", session->epoch()) + Field("step", session->step()) +
                                Field("world", static_cast<uint64_t>(session->world())) +
                                ",\"resumed\":" + (session->resumed() ? "true" : "false"));
  }

  bool leaves() const { return leaves_; }  // after the step that was the last one

  // False after the last step.
  bool Step() {
    const uint64_t began = session_->epoch();
    std::vector<uint64_t> samples;
    gave_ = 0;
    leaves_ = asked_to_leave;
    if (leaves_) session_->LeaveAfterStep();
    if (!session_->receiving()) {
      samples = sampler_.Next(static_cast<int>(rank_));
      session_->BeginStep(static_cast<double>(samples.size()));
      Differentiate(samples);
      gave_ = samples.size() * fingerprint_.Of(gradient_.data() + kDense);
      usleep(static_cast<useconds_t>(settings_.milliseconds) * 1000);
      session_->Ready(sparse_);
      session_->Ready(dense_);
    }
    const ringwood_step_result result = FinishStep();
    if (result.received) Receive();
    const uint64_t pass = sampler_.pass();
    if (!result.skipped) {
      for (uint64_t i = 0; i < weights_.size(); ++i) weights_[i] -= 0.01f * gradient_[i];
    }
    sampler_.Committed(result);
    Tell(began, pass, samples, result);
    return !leaves_ && !(gradient_[0] > 0 && !result.skipped);
  }

  void Save() {
    const std::string cursor = sampler_.State();
    session_->Checkpoint(
        {ringwood::Session::Item(kWeights, weights_.data(), weights_.size() * sizeof(float)),
         ringwood::Session::Item(kCursor, cursor.data(), cursor.size())});
  }

 private:
  static ringwood_sampler_options SamplerOptions(const Settings& settings, int world) {
    ringwood_sampler_options options{};
    options.samples = settings.samples;
    options.batch = kBatch;
    options.seed = 1;
    options.world = world;
    return options;
  }

  // Gives the state when a rank that comes wants it.
  ringwood_step_result FinishStep() {
    for (;;) {
      try {
        return session_->FinishStep();
      } catch (const ringwood::Error&) {
        if (!session_->state_wanted()) throw;
        cursor_ = sampler_.State();
        session_->StateItem(kWeights, weights_.data(), weights_.size() * sizeof(float));
        session_->StateItem(kCursor, cursor_.data(), cursor_.size());
        if (!ballast_.empty()) session_->StateItem(kBallast, ballast_.data(), ballast_.size());
      }
    }
  }

  void Receive() {
    const std::string weights = session_->Received(kWeights);
    std::memcpy(weights_.data(), weights.data(), weights.size());
    sampler_.Restore(session_->Received(kCursor));
    if (!ballast_.empty() && session_->Received(kBallast) != ballast_) {
      throw std::runtime_error("the state that came is not that of the others");
    }
  }

  // Their mean, to whole units. Element 0 of the dense tensor carries the wish to end; its weight
  // is never used.
  void Differentiate(const std::vector<uint64_t>& samples) {
    for (uint64_t i = 0; i < gradient_.size(); ++i) gradient_[i] = 0.1f * weights_[i];
    for (const uint64_t sample : samples) {
      for (uint64_t i = Mix(sample) % 7; i < gradient_.size(); i += 7) {
        gradient_[i] += static_cast<float>(Mix(sample * 1000003 + i) >> 40) * 0x1p-24f - 0.5f;
      }
    }
    const double count = samples.empty() ? 1 : static_cast<double>(samples.size());
    for (float& each : gradient_) {
      each = static_cast<float>(std::nearbyint(each / count / kUnit) * kUnit);
    }
    gradient_[0] = asked_to_end ? 1 : 0;
  }

  uint64_t Digest() const {
    uint64_t digest = 0;
    for (uint64_t i = 1; i < weights_.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &weights_[i], sizeof bits);
      digest = (digest ^ bits) * 0x9e3779b97f4a7c15u;
      digest ^= digest >> 29;
    }
    return digest;
  }

  void Tell(uint64_t began, uint64_t pass, const std::vector<uint64_t>& samples,
            const ringwood_step_result& result) {
    bool contributed = false;
    for (size_t i = 0; i < result.contributor_count; ++i) {
      contributed |= result.contributors[i] == static_cast<int>(rank_);
    }
    std::string list;
    for (const uint64_t sample : samples) {
      if (!contributed) break;
      if (!list.empty()) list += ',';
      list += std::to_string(sample);
    }
    char digest[20];
    std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(Digest()));
    history_->Write("step", Field("step", result.step) + Field("epoch", session_->epoch()) +
                                Field("began", began) + Field("world", result.member_count) +
                                Field("received", static_cast<uint64_t>(result.received)) +
                                Field("again", static_cast<uint64_t>(result.exchanged_again)) +
                                ",\"digest\":\"" + digest + "\"" +
                                Field("total", static_cast<uint64_t>(result.total_weight)) +
                                Field("contributors", result.contributor_count) +
                                Owed(result, contributed) + Field("pass", pass) + ",\"samples\":[" +
                                list + "]");
  }

  // What this rank has given, what was applied on all, what this one owes now, and its norm. A rank
  // that took the state of the others has given nothing, even if it had begun the step.
  std::string Owed(const ringwood_step_result& result, bool contributed) {
    const std::vector<float> residual = session_->Residual(sparse_, kSparse);
    double squares = 0;
    for (const float each : residual) squares += static_cast<double>(each) * each;
    char norm[40];
    std::snprintf(norm, sizeof norm, ",\"norm\":%.6g", std::sqrt(squares));
    const float* const average = gradient_.data() + kDense;
    return Field("gave", contributed ? gave_ : 0) +
           Field("owed", fingerprint_.Of(residual.data())) +
           Field("applied", fingerprint_.Of(average, result.total_weight)) + norm;
  }

  void Resume() {
    session_->Restore(kWeights, weights_.data(), weights_.size() * sizeof(float));
    std::string cursor(session_->RestoreBytes(kCursor), '\0');
    session_->Restore(kCursor, cursor.data(), cursor.size());
    sampler_.Restore(cursor, session_->world());
  }

  ringwood::Session* const session_;
  History* const history_;
  const Settings settings_;
  const Fingerprint fingerprint_;
  uint64_t gave_ = 0;  // in this step
  bool leaves_ = false;
  const uint64_t rank_ = std::strtoull(std::getenv("RANK"), nullptr, 10);
  ringwood::Sampler sampler_;
  std::string ballast_;
  std::string cursor_;  // as it was given last
  std::vector<float> gradient_ = std::vector<float>(kDense + kSparse);
  std::vector<float> weights_ = std::vector<float>(kDense + kSparse);
  int dense_ = -1;
  int sparse_ = -1;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || std::getenv("RANK") == nullptr) {
    std::fprintf(stderr,
                 "usage: RANK=… chaos_trainer HISTORY [MILLISECONDS [SAMPLES [CHECKPOINT_EVERY "
                 "[STATE_MIB]]]]\n");
    return 78;
  }
  Settings settings;
  if (count > 2) settings.milliseconds = std::atoi(arguments[2]);
  if (count > 3) settings.samples = std::strtoull(arguments[3], nullptr, 10);
  if (count > 4) settings.checkpoint_every = std::strtoull(arguments[4], nullptr, 10);
  if (count > 5) settings.state_mib = std::strtoull(arguments[5], nullptr, 10);
  signal(SIGTERM, [](int) { asked_to_end = 1; });
  signal(SIGUSR1, [](int) { asked_to_leave = 1; });
  History history(arguments[1]);
  try {
    ringwood::Session session(ringwood::Options::FromEnvironment());
    Trainer trainer(&session, &history, settings);
    const uint64_t every = settings.checkpoint_every;
    while (trainer.Step()) {
      if (every > 0 && session.step() % every == 0) trainer.Save();
    }
    history.Write(trainer.leaves() ? "left" : "end", Field("step", session.step()));
    session.Close();
  } catch (const ringwood::Error& error) {
    history.Write("error", ",\"message\":" + Quoted(error.what()));
    std::fprintf(stderr, "chaos_trainer: %s\n", error.what());
    return error.exit_code();
  }
}
