// A C++ trainer that makes every call of ringwood.hpp that a host without a device can make.
#include <cstdio>
#include <cstdlib>
#include <ringwood.hpp>
#include <string>
#include <vector>

namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "every_call: this must hold: %s\n", what);
  std::exit(1);
}

void Train(ringwood::Session& session) {
  const float rank = static_cast<float>(session.rank());
  std::vector<float> dense(100), sparse(1000), moved(100);
  const int first = session.Register("dense", dense.data(), dense.size(), "dense");
  ringwood::Tensor tensor("sparse", sparse.data(), sparse.size());
  tensor.route = "sparse";
  tensor.density = 0.1;
  tensor.clip_norm = 5;
  const int second = session.Register(tensor);
  session.Agree();
  Expect(session.route(first) == "ring" && session.route(second) == "tree", "routes");
  Expect(!session.plan().empty(), "a plan");
  session.Rebind(first, moved.data());
  session.BeginStep(1);
  for (float& value : moved) value = rank;
  for (float& value : sparse) value = 1;
  session.Ready(second);
  session.Ready(first);
  const ringwood_step_result result = session.FinishStep();
  Expect(result.step == 1 && session.step() == 1 && result.skipped == 0, "one step");
  Expect(moved[99] == 0.5f, "the average of 0 and 1");
  session.StateItem("weights", dense.data(), dense.size() * sizeof(float));
  session.StateOnRequest(false);
  Expect(!session.receiving() && !session.state_wanted() && !result.received,
         "a rank from the start");
  Expect(session.Residual(second, sparse.size()).size() == sparse.size(), "a residual");
}

void Collect(ringwood::Session& session) {
  std::vector<float> data(7, 1);
  session.AllReduce(data.data(), data.size(), RINGWOOD_FLOAT32, RINGWOOD_SUM);
  Expect(data[6] == 2, "the sum of two ranks");
  session.Broadcast(data.data(), data.size() * sizeof(float));
  session.ReduceScatter(data.data(), data.size(), RINGWOOD_FLOAT32);
  const ringwood::Share share = session.ShareOf(data.size());
  Expect(share.count == (session.rank() == 0 ? 4u : 3u) && data[share.begin] == 4, "a share");
  session.AllGather(data.data(), data.size(), RINGWOOD_FLOAT32);
  for (float value : data) Expect(value == 4, "all shares");

  ringwood::Communicator both(session, {1, 0}, 1);
  ringwood_collective_call call{};
  call.collective = RINGWOOD_ALL_REDUCE;
  call.type = RINGWOOD_FLOAT32;
  call.op = RINGWOOD_PRODUCT;
  call.input = call.output = data.data();
  call.input_elements = call.output_elements = data.size();
  ringwood::Work work = both.Start(call);
  work.Wait();
  Expect(work.done() && data[6] == 16, "a product");
}

// One pass of five samples in batches of three; the state goes on where it was taken.
void Sample(ringwood::Session& session) {
  ringwood_sampler_options options{};
  options.samples = 5;
  options.batch = 3;
  options.world = session.world();
  options.in_order = 1;
  ringwood::Sampler sampler(options), other(options);
  for (uint64_t begin = 0; begin < 5; begin += 3) {
    const std::vector<uint64_t> mine = sampler.Next(session.rank());
    const bool first = session.rank() == 0;
    Expect(mine.size() == (first || begin > 0 ? 1u : 2u), "half of a batch");
    Expect(mine[0] == begin + (first ? 0 : 1), "its samples");
    session.BeginStep(static_cast<double>(mine.size()));
    session.Ready(0);
    session.Ready(1);
    const ringwood_step_result result = session.FinishStep();
    Expect(result.member_count == 2 && result.members[1] == 1, "two members");
    Expect(result.contributor_count == 2 && result.contributors[1] == 1, "two contributors");
    sampler.Committed(result);
    other.Restore(sampler.State(), session.world());
    Expect(other.pass() == sampler.pass() && other.Next(0) == sampler.Next(0), "the same state");
  }
  Expect(sampler.pass() == 1, "the pass is over");
}

// As a process that is no rank does; here nobody else saves.
void Pull(const ringwood::Options& job, const std::string& saved) {
  ringwood_pull_options options{};
  options.size = sizeof options;
  options.server = job.coordinator;
  options.token = job.token;
  options.newest_stored = 1;
  ringwood::Pulled pulled(options);
  const ringwood_pulled_state state = pulled.state();
  Expect(state.step == 3 && state.items == 1 && state.bytes == saved.size(), "the checkpoint");
  const ringwood_pulled_item item = pulled.item(0);
  Expect(std::string(item.name) == "item" && std::string(item.dtype) == "U8", "its item");
  Expect(item.dimensions == 1 && item.shape[0] == saved.size(), "its shape");
  std::string read(item.bytes, '\0');
  pulled.Read(0, read.data(), read.size());
  Expect(read == saved, "what was saved");
  const ringwood::Pulled moved = std::move(pulled);
  const char* const unknown[] = {"nothing"};
  options.items = unknown;
  options.item_count = 1;
  try {
    const ringwood::Pulled none(options);
    Expect(false, "an unknown item");
  } catch (const ringwood::Error& error) {
    Expect(error.code() == RINGWOOD_NOT_FOUND, "an error with its code");
  }
}

}  // namespace

int main() {
  try {
    ringwood::Options options = ringwood::Options::FromEnvironment();
    options.log_level = "warning";
    ringwood::Session session(options);
    Expect(session.world() == 2 && session.epoch() > 0 && !session.resumed(), "a new job of two");
    Train(session);
    Sample(session);
    Collect(session);
    const std::string saved = "what is saved";
    session.Checkpoint({ringwood::Session::Item("item", saved.data(), saved.size())});
    session.CheckpointWait();
    Expect(session.CheckpointState().completed == 1, "a checkpoint is complete");
    Pull(options, saved);
    session.Close();
  } catch (const ringwood::Error& error) {
    std::fprintf(stderr, "every_call: %s\n", error.what());
    return error.exit_code();
  }
}
