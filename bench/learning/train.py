"""One run of bench/learning/grid.py: a small GPT with AdamW, by one case.

    ringwood run -np 2 -- python bench/learning/train.py --case 'below the moments' --density 0.01 --report FILE

The text is the sources of Python's library, of which it sees a part once: the last validation loss counts, and the model
would learn on. Or, with --text gpl, the GPL, which it learns by heart: the lowest validation loss counts.
"""

import argparse
import contextlib
import json
import pathlib
import sys
import sysconfig
import time

import torch

import ringwood.torch as rw

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from local_steps import GPT, learning_rate, validate, windows_of  # noqa: E402

from ringwood.examples.letters import read  # noqa: E402

CHARACTERS = 4_000_000  # of the text at most; the last 1/50 validates
BATCH, WINDOW = 16, 64  # windows a step of all ranks; characters
GPL = "/usr/share/common-licenses/GPL-3"
LOOKS = 40  # at the validation loss, where the lowest counts

# Name -> how gradients or differences travel. "density" is the run's.
CASES = {
    "dense": dict(),
    "sparse": dict(route="sparse"),                                       # every tensor, the moments above it
    "matrices": dict(route="sparse", keep_dense=True, warm_up=0.25),      # embeddings, norms, biases dense; warm-up
    "matrices, union": dict(route="sparse", keep_dense=True, warm_up=0.25, merge="union"),
    "below the moments": dict(every=1),                                   # error feedback of Adam's updates
    "below the moments, decay": dict(every=1, residual_decay=0.95),
    "below, of the average": dict(every=1, average=True),                 # rw.AverageAdamW
    "below, of the average, chunk": dict(every=1, average=True, chunk=4096),
    "ahead, of the average": dict(every=1, average=True, ahead=True),      # and by what it owes a rank is ahead
    "bf16": dict(wire="bf16"),                                            # dense gradients of few bits
    "int8": dict(wire="int8"),
    "int4": dict(wire="int4"),
    "int4 every 2": dict(every=2, dense=True, codec="int4"),
    "int4 every 2, of the average": dict(every=2, dense=True, codec="int4", average=True),
    "int4 every 4, of the average": dict(every=4, dense=True, codec="int4", average=True),
    "every 4": dict(every=4),
    "every 16": dict(every=16),
    "sparseloco 32": dict(every=32, chunk=4096, codec="rice/int2", residual_decay=0.95),
    "diloco 16": dict(every=16, dense=True, outer=rw.Nesterov(0.7, 0.9)),
    "diloco 64": dict(every=64, dense=True, outer=rw.Nesterov(0.7, 0.9)),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", default="dense", choices=CASES)
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--lr", type=float, default=3e-3, help="the highest of AdamW")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--text", default="python", choices=TEXTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", metavar="FILE")
    return parser.parse_args()


def text():
    """Of Python's sources, the same on every machine with this Python: (training, validation, letters)."""
    content, files = "", sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    for file in files:
        content += file.read_text(encoding="utf-8", errors="replace")
        if len(content) >= CHARACTERS:
            break
    numbers = torch.frombuffer(bytearray(content[:CHARACTERS].encode("ascii", "replace")), dtype=torch.uint8).long()
    cut = len(numbers) * 49 // 50
    return numbers[:cut], numbers[cut:], 128


def gpl():
    numbers, letters = read(GPL)
    cut = len(numbers) - len(numbers) // 10
    return numbers[:cut], numbers[cut:], letters


TEXTS = {"python": text, "gpl": gpl}


def options_of(case, arguments):
    """Of the session."""
    options = {"warmup_steps": int(case.get("warm_up", 0) * arguments.steps)}
    if "merge" in case:
        options["sparse_merge"] = case["merge"]
    if "wire" in case:
        options["wire"] = case["wire"]
    return options


def groups_of(model, case):
    """Embeddings, norms and biases have no decay, and where the case says so they stay dense."""
    tables = {id(model.letter.weight), id(model.place.weight)}
    matrices = [p for p in model.parameters() if p.dim() >= 2 and id(p) not in tables]
    others = [p for p in model.parameters() if p.dim() < 2 or id(p) in tables]
    route = {"route": "dense"} if case.get("keep_dense") else {}
    return [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0, **route}]


def wrap(model, case, arguments):
    groups = groups_of(model, case)
    if case.get("average"):
        inner = rw.AverageAdamW(groups, arguments.lr, betas=(0.9, 0.95))
    else:
        inner = torch.optim.AdamW(groups, arguments.lr, betas=(0.9, 0.95))
    if "every" in case:
        passed = {name: case[name] for name in ("chunk", "codec", "residual_decay", "ahead") if name in case}
        return rw.LocalSteps(model, inner, case["every"], case.get("outer", rw.OuterSGD()),
                             None if case.get("dense") else arguments.density, **passed)
    if "route" in case:
        return rw.DistributedOptimizer(inner, model.named_parameters(), arguments.density, route=case["route"])
    return rw.DistributedOptimizer(inner, model.named_parameters())


def main():
    arguments = parse_arguments()
    case = CASES[arguments.case]
    torch.set_num_threads(1)
    rw.init(**options_of(case, arguments))
    torch.manual_seed(arguments.seed)
    training, validation, letters = TEXTS[arguments.text]()
    model = GPT(letters, WINDOW, arguments.layers, arguments.width, 4)
    optimizer = wrap(model, case, arguments)
    rw.broadcast_parameters(model.state_dict())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, arguments.steps))
    draw = torch.Generator().manual_seed(1000 + arguments.seed)  # the same batches for any number of ranks
    look, seen = max(1, arguments.steps // LOOKS), []
    begun = time.monotonic()
    for step in range(1, arguments.steps + 1):
        starts = torch.randint(0, len(training) - WINDOW - 1, (BATCH,), generator=draw)[rw.rank()::rw.size()]
        optimizer.zero_grad()
        optimizer.weight = len(starts)
        model(windows_of(training, starts, WINDOW)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if arguments.text == "gpl" and step % look == 0:
            with getattr(optimizer, "outer_parameters", contextlib.nullcontext)():
                seen.append(validate(model, validation, WINDOW))
    if "every" in case:
        optimizer.join()
    seconds = time.monotonic() - begun
    _, dense, sparse, _ = optimizer.traffic()
    whole = 8 * (rw.size() - 1) / rw.size() * sum(p.numel() for p in model.parameters()) * arguments.steps
    if rw.rank() == 0 and arguments.report:
        pathlib.Path(arguments.report).write_text(json.dumps(
            {"loss": min([validate(model, validation, WINDOW), *seen]), "looks": seen, "bytes": dense + sparse, "fewer_bytes": whole / (dense + sparse),
             "seconds": seconds, "steps": arguments.steps, "parameters": sum(p.numel() for p in model.parameters())}))


if __name__ == "__main__":
    main()
