"""What Ringwood's hooks cost the training thread, and what a busy Python thread beside it does.

    ringwood run -np 2 -- python bench/python/hook_bench.py [--steps 40] [--parameters 100] [--only steps]

Three tables by rank 0. Steps: the processor time of a step, of all of the process's threads, beside that of the same step
of plain PyTorch, in turn within one run; medians. The tensors are as many as a model's, of 16 elements each, so that hardly
anything but the cost a tensor is seen. A ratio is a run's own; others that use the machine change both sides. Hooks: microseconds a parameter, the median over steps of the time inside the hooks
divided by their number. Busy thread: milliseconds a step (medians) of the same training with and without
Ringwood, each alone and beside a thread that runs Python all the time; plain PyTorch's own loss of half the
interpreter is thereby seen apart.
"""

import argparse
import statistics
import threading
import time

import torch

import ringwood.torch as rw

KINDS = {"in place": {}, "new gradients": {"set_to_none": True}}
TENSORS = {"two tensors": 2, "a GPT's": 148, "a ViT's": 152, "ResNet-50's": 161, "a thousand": 1000}


def network(parameters, width, dtype=torch.float32):
    return torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(parameters))).to(dtype)


class Busy:
    """A thread that never gives the interpreter up by itself."""

    def __enter__(self):
        self._stop = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop:
            sum(range(50))

    def __exit__(self, *_):
        self._stop = True
        self._thread.join()


def hook_costs(optimizer, model, steps, set_to_none=False):
    """Microseconds a hook, one number a step. Called inside a backward that has nothing else to do."""
    gradients = optimizer._gradients
    hooks = [(gradients._hook(index, slot), slot.parameter) for index, slot in enumerate(gradients.slots)]
    costs = []

    def call_all(_):
        began = time.perf_counter()
        for hook, parameter in hooks:
            hook(parameter)
        costs.append((time.perf_counter() - began) / len(hooks) * 1e6)

    trigger = torch.nn.Parameter(torch.zeros(1))
    trigger.register_post_accumulate_grad_hook(call_all)
    for step in range(steps):
        for _, parameter in hooks:
            if set_to_none:
                parameter.grad = torch.ones_like(parameter)
            else:
                parameter.grad.fill_(1)
        optimizer.end_step()
        gradients._begin()
        trigger.sum().backward()
    return costs


def step_times(model, optimizer, inputs, steps):
    """Seconds of forward, backward and step."""
    times = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=False)
        began = time.perf_counter()
        model(inputs).sum().backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    return times


def own_cost(tensors, steps, set_to_none):
    """(seconds of a step with Ringwood, of the same without): processor time, medians. Both live at once, and every other
    step is the other's."""
    def parameters():
        return [torch.nn.Parameter(torch.ones(16)) for _ in range(tensors)]

    mine, plain = parameters(), parameters()
    wrapped = rw.DistributedOptimizer(torch.optim.SGD(mine, lr=1e-9), [(str(i), each) for i, each in enumerate(mine)],
                                      momentum_correction=0, route="dense")
    pairs = (mine, wrapped), (plain, torch.optim.SGD(plain, lr=1e-9))
    times = [], []
    for _ in range(steps):
        for (trained, optimizer), spent in zip(pairs, times):
            began = time.process_time()
            optimizer.zero_grad(set_to_none=set_to_none)
            torch.stack(trained).sum().backward()
            optimizer.step()
            spent.append(time.process_time() - began)
    return [statistics.median(spent) for spent in times]


def say_own_costs(say, steps):
    for name, tensors in TENSORS.items():
        for kind, how in KINDS.items():
            rw.init()  # each time a session of its own: the first optimizer has its tensors
            mine, plain = own_cost(tensors, steps, how.get("set_to_none", False))
            rw.shutdown()
            say(f"steps, {name:<11} {kind:<14} {mine * 1e6:8.0f} us, plain {plain * 1e6:8.0f} us: {mine / plain:5.2f} "
                f"times, {(mine - plain) / tensors * 1e6:7.2f} us more a tensor", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--parameters", type=int, default=100)
    parser.add_argument("--samples", type=int, default=1000, help="rows of the input: the weight of a step")
    parser.add_argument("--only", choices=["steps"], help="leave the other tables out")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rw.init()
    say = print if rw.rank() == 0 else lambda *_, **__: None
    say_own_costs(say, arguments.steps)
    if arguments.only:
        return
    rw.init()
    torch.manual_seed(1)  # the same weights on every rank
    model, plain = network(arguments.parameters, 64), network(arguments.parameters, 64)
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-9), model.named_parameters(),
                                        momentum_correction=0, route="dense")
    inputs = torch.randn(arguments.samples, 64) / 64
    step_times(model, optimizer, inputs, 3)
    for kind, how in KINDS.items():
        say(f"hooks, {kind:<14} {statistics.median(hook_costs(optimizer, model, arguments.steps, **how)):8.2f} us"
            " a parameter")
    others = torch.optim.SGD(plain.parameters(), lr=1e-9)
    for name, pair in (("ringwood", (model, optimizer)), ("plain", (plain, others))):
        alone = step_times(*pair, inputs, arguments.steps)
        with Busy():
            beside = step_times(*pair, inputs, arguments.steps)
        say(f"{name:<10} alone {statistics.median(alone) * 1e3:8.2f} ms a step, beside a busy thread "
            f"{statistics.median(beside) * 1e3:8.2f} ms (slowest {max(beside) * 1e3:.2f})")
    rw.shutdown()


if __name__ == "__main__":
    main()
