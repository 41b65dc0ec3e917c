// A C++ trainer with an update log that dies after its fifth step, three after its checkpoint;
// started again it does those steps as they were.
#include <unistd.h>

#include <cstdio>
#include <ringwood.hpp>
#include <string>
#include <vector>

namespace {

constexpr uint64_t kSaved = 2;
constexpr uint64_t kDeath = 5;

struct Model {
  float weight = 0;
  float gradient = 0;
};

void Step(ringwood::Session& session, int id, Model& model) {
  model.gradient = static_cast<float>(session.step() + 1);
  session.Note("after " + std::to_string(session.step()));
  session.BeginStep(1);
  session.Ready(id);
  session.FinishStep();
  model.weight += model.gradient;
}

bool Replay(ringwood::Session& session, Model& model) {
  if (session.replays() != kDeath - kSaved) return false;
  for (uint64_t step = kSaved; session.replays() > 0; ++step) {
    const ringwood_step_result result = session.Replay();
    if (result.step != step + 1 || result.skipped != 0) return false;
    if (session.ReplayedNote() != "after " + std::to_string(step)) return false;
    model.weight += model.gradient;
  }
  return true;
}

}  // namespace

int main() {
  try {
    ringwood::Session session(ringwood::Options::FromEnvironment());
    Model model;
    const int id = session.Register("weight", &model.gradient, 1, "dense");
    if (session.resumed()) {
      session.Restore("weight", &model.weight, sizeof model.weight);
      if (!Replay(session, model)) return 1;
    }
    while (session.step() < kDeath) {
      Step(session, id, model);
      if (session.step() != kSaved) continue;
      session.Checkpoint({ringwood::Session::Item("weight", &model.weight, sizeof model.weight)});
      session.CheckpointWait();
    }
    if (!session.resumed()) _exit(75);
    Step(session, id, model);
    std::printf("step %d: weight %g, logs %d\n", static_cast<int>(session.step()), model.weight,
                session.logs());
    session.Close();
  } catch (const ringwood::Error& error) {
    std::fprintf(stderr, "replayed: %s\n", error.what());
    return error.exit_code();
  }
}
