// Ringwood for C++ (17 and later): thin, header-only, over ringwood.h. Errors are exceptions of
// type ringwood::Error with the RINGWOOD_* code; ready() is the one call for other threads.
//
//   ringwood::Session session(ringwood::Options::FromEnvironment());
//   const int id = session.Register("weights", gradient.data(), gradient.size(), "sparse", 0.01);
//   ...
//   session.BeginStep(batch_size);
//   session.Ready(id);
//   session.FinishStep();  // gradient holds the average
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ringwood.h"
#include "ringwood_communicator.h"
#include "ringwood_pull.h"

namespace ringwood {

class Error : public std::runtime_error {
 public:
  Error(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }
  // The exit code for a program: 75 = restart from the newest checkpoint, 78 = the input is wrong.
  int exit_code() const { return ringwood_exit_code(code_); }
  bool restart() const { return exit_code() == 75; }

 private:
  int code_;
};

inline void Check(int code) {
  if (code != RINGWOOD_OK) throw Error(code, ringwood_last_error());
}

// ringwood_options with its size set; the strings are the caller's and live until Session is made.
struct Options : ringwood_options {
  Options() : ringwood_options{} { size = sizeof(ringwood_options); }
  static Options FromEnvironment() {
    Options options;
    Check(ringwood_options_from_environment(&options, sizeof(ringwood_options)));
    return options;
  }
};

// ringwood_tensor with its size and type set; other fields have the header's defaults.
//
//   ringwood::Tensor tensor("weights", gradient, elements);
//   tensor.route = "sparse";
//   tensor.clip_norm = 1;
//   const int id = session.Register(tensor.OnDevice(0, stream));
//
// The name belongs to the caller and must be valid until Register returns.
struct Tensor : ringwood_tensor {
  Tensor(const char* tensor_name, float* gradient, uint64_t count) : ringwood_tensor{} {
    size = sizeof(ringwood_tensor);
    name = tensor_name;
    data = gradient;
    elements = count;
    type = RINGWOOD_FLOAT32;
  }
  // The gradient is memory of this CUDA device, made and used on this cudaStream_t.
  Tensor& OnDevice(int index, void* cuda_stream = nullptr) {
    memory = RINGWOOD_CUDA;
    device = index;
    stream = cuda_stream;
    return *this;
  }
};

// A rank's part of elements that are cut over the world: [begin, begin + count).
struct Share {
  uint64_t begin = 0;
  uint64_t count = 0;
};

// Throws an Error that says what is missing for tensors on a device.
inline void CheckDeviceSupport() { Check(ringwood_device_support()); }

class Session {
 public:
  explicit Session(const Options& options) { Check(ringwood_open(&options, &handle_)); }
  // During an exception the other ranks are told that this one failed.
  ~Session() {
    if (handle_ == nullptr) return;
    ringwood_close(handle_,
                   std::uncaught_exceptions() > 0 ? "an exception ended the rank" : nullptr);
  }
  Session(Session&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Session& operator=(Session&&) = delete;

  // Leaves the job cleanly and reports errors, which a destructor cannot.
  void Close() { Check(ringwood_close(std::exchange(handle_, nullptr), nullptr)); }
  void Fail(const std::string& why) {
    ringwood_close(std::exchange(handle_, nullptr), why.c_str());
  }

  int rank() const { return ringwood_rank(handle_); }
  int world() const { return ringwood_world(handle_); }
  int slot() const { return ringwood_slot(handle_); }
  uint64_t epoch() const { return ringwood_epoch(handle_); }
  uint64_t step() const { return ringwood_step(handle_); }
  bool resumed() const { return ringwood_resumed(handle_) != 0; }

  // `gradient` must stay in place, or call Rebind; the id is for Ready.
  int Register(const std::string& name, float* gradient, uint64_t elements,
               const std::string& route = "auto", double density = 0.01, double momentum = 0) {
    Tensor tensor(name.c_str(), gradient, elements);
    tensor.route = route.c_str();
    tensor.density = density;
    tensor.momentum = momentum;
    return Register(tensor);
  }
  int Register(const Tensor& tensor) {
    int id = -1;
    Check(ringwood_register(handle_, &tensor, &id));
    return id;
  }
  void Rebind(int id, float* gradient) { Check(ringwood_rebind(handle_, id, gradient)); }
  void Agree() { Check(ringwood_agree(handle_)); }
  std::string plan() const {
    const char* text = ringwood_plan_text(handle_);
    return text == nullptr ? "" : text;
  }

  // "ring" or "tree"; "" before Agree.
  std::string route(int id) const {
    const char* text = ringwood_route(handle_, id);
    return text == nullptr ? "" : text;
  }

  // Throws an Error that says what stands against tensors on the device.
  void CheckDeviceSupport(int device) { Check(ringwood_session_device_support(handle_, device)); }

  void BeginStep(double weight) { Check(ringwood_begin_step(handle_, weight)); }
  void BeginPass(double weight, uint32_t pass) {
    Check(ringwood_begin_pass(handle_, weight, pass));
  }
  void Loaded() { Check(ringwood_loaded(handle_)); }  // any thread
  void LeaveAfterStep() { Check(ringwood_leave_after_step(handle_)); }
  void Leave(bool leaves) { Check(ringwood_leave(handle_, leaves ? 1 : 0)); }
  static void Interrupt() { ringwood_interrupt(); }         // any thread
  void AskToEnd() { Check(ringwood_ask_to_end(handle_)); }  // any thread
  void Ready(int id) { Check(ringwood_ready(handle_, id)); }
  ringwood_step_result FinishStep() {
    ringwood_step_result result{};
    result.size = sizeof result;
    Check(ringwood_finish_step(handle_, &result));
    return result;
  }
  std::vector<float> Residual(int id, uint64_t elements) {
    std::vector<float> residual(elements);
    Check(ringwood_residual(handle_, id, residual.data(), elements));
    return residual;
  }

  // The state of an elastic job, for processes that come to it.
  void StateItem(const std::string& name, void* data, uint64_t bytes) {
    Check(ringwood_state_item(handle_, name.c_str(), data, bytes));
  }
  bool receiving() const { return ringwood_receiving(handle_) != 0; }
  void StateOnRequest(bool on = true) { Check(ringwood_state_on_request(handle_, on)); }
  bool state_wanted() const { return ringwood_state_wanted(handle_) != 0; }
  std::string Received(const std::string& name) {
    uint64_t bytes = 0;
    Check(ringwood_received_bytes(handle_, name.c_str(), &bytes));
    std::string item(bytes, '\0');
    Check(ringwood_received(handle_, name.c_str(), item.data(), bytes));
    return item;
  }

  void AllReduce(void* data, uint64_t elements, int type, int op = RINGWOOD_SUM) {
    Check(ringwood_allreduce(handle_, data, elements, type, op));
  }
  void Broadcast(void* data, uint64_t bytes, int root = 0) {
    Check(ringwood_broadcast(handle_, data, bytes, root));
  }

  Share ShareOf(uint64_t elements) {  // of this rank
    Share share;
    Check(ringwood_share(handle_, elements, &share.begin, &share.count));
    return share;
  }
  void ReduceScatter(void* data, uint64_t elements, int type, int op = RINGWOOD_SUM) {
    Check(ringwood_reduce_scatter(handle_, data, elements, type, op));
  }
  void AllGather(void* data, uint64_t elements, int type) {
    Check(ringwood_all_gather(handle_, data, elements, type));
  }

  static ringwood_item Item(const char* name, const void* data, uint64_t bytes,
                            int scope = RINGWOOD_SHARED) {
    ringwood_item item{};
    item.size = sizeof item;
    item.name = name;
    item.data = data;
    item.bytes = bytes;
    item.scope = scope;
    return item;
  }
  void Checkpoint(const std::vector<ringwood_item>& items) {
    Check(ringwood_checkpoint(handle_, items.data(), items.size()));
  }
  void CheckpointWait() { Check(ringwood_checkpoint_wait(handle_)); }
  ringwood_checkpoint_progress CheckpointState() const {
    ringwood_checkpoint_progress progress{};
    progress.size = sizeof progress;
    Check(ringwood_checkpoint_state(handle_, &progress));
    return progress;
  }
  uint64_t RestoreBytes(const std::string& name, int scope = RINGWOOD_SHARED) {
    uint64_t bytes = 0;
    Check(ringwood_restore_bytes(handle_, name.c_str(), scope, &bytes));
    return bytes;
  }
  void Restore(const std::string& name, void* out, uint64_t bytes, int scope = RINGWOOD_SHARED) {
    Check(ringwood_restore(handle_, name.c_str(), scope, out, bytes));
  }

  // The update log: steps that a resumed session has to do again, see ringwood_replays.
  uint64_t replays() const { return ringwood_replays(handle_); }
  ringwood_step_result Replay() {
    ringwood_step_result result{};
    result.size = sizeof result;
    Check(ringwood_replay(handle_, &result));
    return result;
  }
  int logs() const { return ringwood_logs(handle_); }
  void Note(const std::string& note) { Check(ringwood_note(handle_, note.data(), note.size())); }
  std::string ReplayedNote() {
    uint64_t bytes = 0;
    Check(ringwood_replayed_note(handle_, nullptr, 0, &bytes));
    std::string note(bytes, '\0');
    Check(ringwood_replayed_note(handle_, note.data(), bytes, &bytes));
    return note;
  }

 private:
  friend class Communicator;
  ringwood_session* handle_ = nullptr;
};

// A call of a communicator that was started. It is waited for, or its memory stays in place until
// the session is closed.
class Work {
 public:
  explicit Work(ringwood_work* started) : handle_(started) {}
  ~Work() { ringwood_work_free(handle_); }
  Work(Work&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Work& operator=(Work&&) = delete;

  bool done() const { return ringwood_done(handle_) != 0; }
  void Wait(double seconds = 3600) { Check(ringwood_wait(handle_, seconds)); }

 private:
  ringwood_work* handle_ = nullptr;
};

// Collectives of some ranks in the background; any thread. Not longer than its session.
//
//   ringwood::Communicator pair(session, {0, 1}, 1);
//   ringwood_collective_call call{};
//   call.collective = RINGWOOD_ALL_REDUCE;
//   ...
//   pair.Start(call).Wait();
class Communicator {
 public:
  Communicator(Session& session, const std::vector<int>& ranks, uint32_t number) {
    Check(
        ringwood_communicator_make(session.handle_, ranks.data(), ranks.size(), number, &handle_));
  }
  ~Communicator() { ringwood_communicator_free(handle_); }
  Communicator(Communicator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Communicator& operator=(Communicator&&) = delete;

  // `call`: its size need not be set.
  Work Start(ringwood_collective_call call) {
    call.size = sizeof call;
    ringwood_work* work = nullptr;
    Check(ringwood_start(handle_, &call, &work));
    return Work(work);
  }

 private:
  ringwood_communicator* handle_ = nullptr;
};

// Which samples of a pass a step takes. In every step:
//
//   const std::vector<uint64_t> mine = sampler.Next(session.slot());
//   session.BeginStep(mine.size());
//   ...
//   sampler.Committed(session.FinishStep());
class Sampler {
 public:
  // `options`: its size need not be set.
  explicit Sampler(ringwood_sampler_options options) {
    options.size = sizeof options;
    Check(ringwood_sampler_make(&options, &handle_));
  }
  ~Sampler() { ringwood_sampler_free(handle_); }
  Sampler(Sampler&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Sampler& operator=(Sampler&&) = delete;

  std::vector<uint64_t> Next(int rank, int ahead = 0) {
    uint64_t count = 0;
    Check(ringwood_sampler_next(handle_, rank, ahead, nullptr, 0, &count));
    std::vector<uint64_t> samples(count);
    Check(ringwood_sampler_next(handle_, rank, ahead, samples.data(), count, &count));
    return samples;
  }
  void Committed(const ringwood_step_result& result) {
    Check(ringwood_sampler_committed(handle_, &result));
  }
  uint64_t pass() const { return ringwood_sampler_pass(handle_); }  // finished ones

  std::string State() const {
    uint64_t bytes = 0;
    Check(ringwood_sampler_state(handle_, nullptr, 0, &bytes));
    std::string state(bytes, '\0');
    Check(ringwood_sampler_state(handle_, state.data(), bytes, &bytes));
    return state;
  }
  void Restore(const std::string& state, int world = 0) {
    Check(ringwood_sampler_restore(handle_, state.data(), state.size(), world));
  }

 private:
  ringwood_sampler* handle_ = nullptr;
};

// The newest committed weights of a job, for a process that is no rank of it; see ringwood_pull.
//
//   ringwood_pull_options options{};
//   options.size = sizeof options;
//   options.server = "127.0.0.1:7070";
//   ringwood::Pulled pulled(options);
//   for (size_t i = 0; i < pulled.state().items; ++i) {
//     const ringwood_pulled_item item = pulled.item(i);
//     ...
//     pulled.Read(i, memory, item.bytes);
class Pulled {
 public:
  explicit Pulled(const ringwood_pull_options& options) {
    Check(ringwood_pull(&options, &handle_));
  }
  ~Pulled() { ringwood_pulled_free(handle_); }
  Pulled(Pulled&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Pulled& operator=(Pulled&&) = delete;

  ringwood_pulled_state state() const {
    ringwood_pulled_state state{};
    state.size = sizeof state;
    Check(ringwood_pulled_describe(handle_, &state));
    return state;
  }
  ringwood_pulled_item item(size_t index) const {  // its pointers live as long as this
    ringwood_pulled_item item{};
    item.size = sizeof item;
    Check(ringwood_pulled_describe_item(handle_, index, &item));
    return item;
  }
  void Read(size_t index, void* out, uint64_t bytes) {
    Check(ringwood_pulled_read(handle_, index, out, bytes));
  }

 private:
  ringwood_pulled* handle_ = nullptr;
};

}  // namespace ringwood
