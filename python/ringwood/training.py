"""Checkpoints of a training loop: everything that a bit-identical resume needs.

Shared by all ranks: weights, the optimizer's state, the cursor (where in the data we are). Own of each rank:
the states of the random generators, and what else of the model's state differs from rank to rank, such as
the running statistics of BatchNorm. Residuals, velocities of sparse tensors and the step are added by the
library.
"""

import json
import random
import sys
import time

import numpy as np
import torch

from .agreement import differing
from .errors import ForkedError, InvalidError, NotFoundError, RefusedError, RingwoodError
from .memory import DTYPES
from .state import flatten, gather_tensors, unflatten

# A tensor's item is named by its path: "model/fc.weight", "optimizers/0/state/3/exp_avg". Older versions
# numbered them.
SKELETON, FORMER_TENSOR = "training/skeleton", "training/tensor/{}"
PER_RANK_SKELETON, FORMER_PER_RANK_TENSOR = "training/own/skeleton", "training/own/tensor/{}"
RANDOM = "training/random"
IMPORTED = "imported/safetensors"  # the header of the file that `ringwood checkpoint import` has read


def save(model, optimizer, cursor, every=1):
    """After step(), on all ranks: when a multiple of `every` committed steps is reached, copies the state and
    lets it travel to the store in the background. With every="auto" the session says when, by what checkpoints cost
    and how often ranks fail (docs/reliability.md). `optimizer`: or a list of them, of which the first one's
    steps count. `cursor`: any dict of numbers and texts, the same on all ranks. Returns whether this step is
    on its way. A checkpoint that fails does not end the training: it is told on standard error, and
    `session.checkpoint_wait()` raises why."""
    optimizers = _all(optimizer)
    session = optimizers[0].session
    if every == "auto":
        if not optimizers[0].last or not optimizers[0].last.checkpoint_due:
            return False
    elif every < 1:
        raise InvalidError('save every: at least 1 step, or "auto"')
    elif session.step // every == optimizers[0].committed_before // every:
        return False
    return _save(session, model, optimizers, cursor)


def _save(session, model, optimizers, cursor):
    state = dict(model.state_dict())
    local = _local_state(session, state, optimizers)
    shared = state_items({"model": state, "optimizers": [each.state_dict() for each in optimizers], "cursor": cursor},
                         SKELETON)
    per_rank = state_items(local, PER_RANK_SKELETON, "model")
    try:
        session.checkpoint(shared=shared, per_rank={RANDOM: _random_state(), **per_rank})
    except (InvalidError, RefusedError, ForkedError):
        raise
    except RingwoodError as failure:
        sys.stderr.write(f"W rank {session.rank}: no checkpoint of step {session.step}: {failure}\n")
        return False
    return True


def _all(optimizer):
    return list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]


def _local_state(session, state, optimizers):
    """Removes the tensors that differ from rank to rank from `state` and returns them. Trained parameters are
    the same everywhere."""
    trained = {p.data_ptr() for each in optimizers for group in each.param_groups for p in group["params"]}
    names = [name for name, value in state.items()
             if torch.is_tensor(value) and value.numel() and value.data_ptr() not in trained]
    different = differing(session, [state[name] for name in names])
    return {name: state.pop(name) for name, differs in zip(names, different) if differs}


def state_items(tree, skeleton_name, *root):
    """Name -> bytes or tensor, of a tree as flatten takes it."""
    skeleton, tensors = flatten(tree, *root)
    return {skeleton_name: skeleton, **tensors}


def resume(model, optimizer, before_step=None, after_step=None):
    """If the session started from a checkpoint: restores everything and returns the cursor, else
    None. Call it after making the DistributedOptimizer, or all of the list.

    With an update log the steps after the checkpoint are done again (DistributedOptimizer.replay says what
    `before_step` and `after_step` are), so that no committed step is lost: session.step is where the training goes
    on, the cursor is that of the checkpoint. Random generators, and buffers that are no parameters, are the
    checkpoint's, too.

    From an imported checkpoint (`ringwood checkpoint import`) the model gets its weights, all of them; the optimizer
    and the random generators stay as they are, and None is returned: the data begins anew."""
    optimizers = _all(optimizer)
    session = optimizers[0].session
    if not session.resumed:
        if session.logged:
            _save_start(session, model, optimizers)
        return None
    imported = _imported(session)
    if imported is None:
        cursor = _load(session, model, optimizers)
    else:
        cursor = _load_imported(session, model, imported)
    if session.replays:
        if len(optimizers) > 1:
            raise RefusedError(f"the update log has the gradients of one DistributedOptimizer, there are "
                               f"{len(optimizers)}: start without --update-log, which gives {session.replays} steps up")
        _replay(model, optimizers[0], before_step, after_step)
    return cursor


def _load(session, model, optimizers):
    state = _tree(session, "shared", SKELETON, FORMER_TENSOR)
    state["model"].update(_tree(session, "per_rank", PER_RANK_SKELETON, FORMER_PER_RANK_TENSOR))
    model.load_state_dict(state["model"])
    for each, saved in zip(optimizers, state["optimizers"], strict=True):
        each.load_state_dict(saved)
    _set_random_state(session.restore(RANDOM, "per_rank"))
    return state["cursor"]


def _imported(session):
    """The header of the file that the checkpoint was made of; None: ranks saved it."""
    try:
        return json.loads(session.restore(IMPORTED))
    except NotFoundError:
        return None


def _load_imported(session, model, header):
    """The weights, and no cursor."""
    state = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        state[name] = torch.empty(entry["shape"], dtype=getattr(torch, DTYPES[entry["dtype"]]))
        _fill(state[name], session.restore(f"model/{name}"))
    try:
        model.load_state_dict(state)
    except RuntimeError as failure:
        raise InvalidError(f"the imported weights are not this model's: {failure}") from failure
    if session.rank == 0:
        sys.stderr.write(f"I rank 0: {len(state)} imported tensors are the model's; optimizer, random generators and "
                         "position in the data begin anew\n")


def _fill(tensor, content):
    if tensor.numel():
        tensor.copy_(torch.frombuffer(bytearray(content), dtype=tensor.dtype).view(tensor.shape))


def _save_start(session, model, optimizers):
    """Before the first step: what is logged leads on from a checkpoint."""
    parameters = [p for each in optimizers for group in each.param_groups for p in group["params"]]
    if any(differing(session, parameters)):
        if session.rank == 0:
            sys.stderr.write("W rank 0: no checkpoint before the first step, as the ranks' parameters differ: call "
                             "rw.broadcast_parameters before rw.resume. Until the first rw.save a job that loses all "
                             "its processes begins anew, in spite of --update-log\n")
        return
    if _save(session, model, optimizers, None):
        try:
            session.checkpoint_wait()
        except RingwoodError as failure:
            sys.stderr.write(f"W rank {session.rank}: no checkpoint before the first step: {failure}\n")


def _replay(model, optimizer, before_step, after_step):
    session = optimizer.session
    first, began = session.step, time.monotonic()
    count = optimizer.replay(before_step, after_step)
    if session.rank != 0:
        return
    sys.stderr.write(f"I rank 0: resumed at step {session.step}: the checkpoint of step {first}, and {count} logged "
                     f"steps replayed in {time.monotonic() - began:.1f} s\n")
    trained = {p.data_ptr() for group in optimizer.param_groups for p in group["params"]}
    kept = [name for name, value in model.state_dict(keep_vars=True).items()
            if torch.is_tensor(value) and value.numel() and value.data_ptr() not in trained]
    if kept:
        sys.stderr.write(f"W rank 0: not replayed, and as in the checkpoint of step {first}: random generators, and "
                         f"{len(kept)} buffer(s): {', '.join(kept[:6])}{', …' if len(kept) > 6 else ''}\n")


def _tree(session, scope, skeleton_name, former):
    return state_of_items(lambda name: session.restore(former.format(name) if isinstance(name, int) else name, scope),
                          skeleton_name)


def state_of_items(read, skeleton_name):
    """The inverse of state_items. `read`: name -> bytes; a number in the place of a name that an older version
    did not give."""
    skeleton = read(skeleton_name)
    tensors = gather_tensors(skeleton)
    for name, tensor in tensors.items():
        if tensor.numel():
            _fill(tensor, read(name))
    return unflatten(skeleton, list(tensors.values()))


def _random_state():
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return json.dumps({
        "torch": _hex(torch.get_rng_state()),
        "cuda": [_hex(state) for state in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else [],
        "python": [version, list(words), gauss],
        "numpy": [name, keys.tolist(), position, has_gauss, cached]}).encode()


def _hex(state):
    return state.numpy().tobytes().hex()


def _from_hex(text):
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)


def _set_random_state(content):
    state = json.loads(content)
    torch.set_rng_state(_from_hex(state["torch"]))
    if state["cuda"]:
        torch.cuda.set_rng_state_all([_from_hex(each) for each in state["cuda"]])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))
