// A trainer in C++ with PyTorch's C++ library: learns what a fixed random network, the teacher,
// answers.
//
//   ringwood run -np 4 -- build/train [STEPS]
//
// Every rank draws its own samples. Gradients leave during backward: a hook on each parameter
// copies its gradient into a buffer that the session knows, and announces it.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <ringwood.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kInputs = 32;
constexpr int kHidden = 256;
constexpr int kOutputs = 8;
constexpr int kSamples = 64;  // of each rank in a step
constexpr int kUnevenStep = 3;

torch::nn::Sequential MakeNetwork(int hidden) {
  return torch::nn::Sequential(torch::nn::Linear(kInputs, hidden), torch::nn::Tanh(),
                               torch::nn::Linear(hidden, kOutputs));
}

// The gradients of a network's parameters and their ids in the session.
class Gradients {
 public:
  Gradients(torch::nn::Sequential& network, ringwood::Session& session) {
    for (auto& item : network->named_parameters()) {
      torch::Tensor buffer = torch::zeros_like(item.value());
      const int id = session.Register(item.key(), buffer.data_ptr<float>(),
                                      static_cast<uint64_t>(buffer.numel()), "dense");
      item.value().register_hook([buffer, id, &session](const torch::Tensor& gradient) {
        torch::NoGradGuard guard;
        buffer.copy_(gradient);
        session.Ready(id);
      });
      parameters_.emplace_back(item.value(), buffer);
    }
  }

  // After FinishStep: the averages become the parameters' gradients.
  void Give() {
    for (auto& [parameter, buffer] : parameters_) parameter.mutable_grad() = buffer;
  }

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> parameters_;
};

struct Losses {
  double first = 0;
  double last = 0;
};

Losses Train(ringwood::Session& session, int steps) {
  torch::manual_seed(1);  // the same teacher and the same start on every rank
  torch::nn::Sequential teacher = MakeNetwork(16);
  torch::nn::Sequential network = MakeNetwork(kHidden);
  Gradients gradients(network, session);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::manual_seed(100 + session.rank());  // other samples on every rank
  Losses losses;
  for (int step = 0; step < steps; ++step) {
    const int samples = kSamples - (session.rank() + step) % kUnevenStep;  // shares may differ
    const torch::Tensor inputs = torch::randn({samples, kInputs});
    const torch::Tensor wanted = teacher->forward(inputs).detach();
    optimizer.zero_grad();
    session.BeginStep(samples);
    torch::Tensor loss = torch::mse_loss(network->forward(inputs), wanted);
    loss.backward();
    session.FinishStep();
    gradients.Give();
    optimizer.step();
    double mean = loss.item<double>();
    session.AllReduce(&mean, 1, RINGWOOD_FLOAT64, RINGWOOD_AVERAGE);
    if (step == 0) losses.first = mean;
    losses.last = mean;
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<ringwood::Session> session;
  try {
    torch::set_num_threads(1);  // the ranks share the cores
    const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
    if (steps < 1) throw ringwood::Error(RINGWOOD_INVALID, "STEPS is a number, 1 or more");
    session.emplace(ringwood::Options::FromEnvironment());
    const Losses losses = Train(*session, steps);
    if (session->rank() == 0) {
      std::printf("%d ranks: loss %.5f at first, %.5f at last\n", session->world(), losses.first,
                  losses.last);
    }
    session->Close();
    return losses.last < losses.first / 2 ? 0 : 1;
  } catch (const ringwood::Error& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    if (session) session->Fail(error.what());
    return error.exit_code();  // launchers understand it
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    if (session) session->Fail(error.what());
    return 1;
  }
}
