"""The framework-free layer: a session over NumPy arrays, torch tensors or raw pointers.

    with ringwood.Session() as session:              # RANK, WORLD_SIZE, RINGWOOD_COORDINATOR
        gradient = numpy.zeros(1_000_000, numpy.float32)
        session.register("weights", gradient, route="sparse", density=0.01)
        for batch in batches:
            session.begin_step(weight=len(batch))
            gradient[:] = differentiate(batch)
            session.ready("weights")                 # enqueues, microseconds
            session.finish_step()                    # waits, votes, commits
            weights -= rate * gradient               # the weighted average, the same bits everywhere
"""

import contextlib
import ctypes
import os
from ctypes import byref, c_int, c_uint64, c_void_p

import numpy as np

from . import ending
from .entry.entry import enter
from .errors import ForkedError, InvalidError, RefusedError, RingwoodError, sentence_of
from .interface.items import items_of
from .interface.registered import RegisteredGradients
from .interface.results import CheckpointProgress, StepResult, checkpoint_progress_of, step_result_of
from .library import ELEMENT_TYPES, MEMORY, OPERATIONS, SCOPES, CheckpointNumbers, StepNumbers, Tensor, load
from .memory import bytes_of, gradient_of, region_of, stream_of

__all__ = ["CheckpointProgress", "Session", "StepResult"]


def _own(value):
    """As ringwood_tensor has it: 0 is the session's, a negative number none."""
    if value is None:
        return 0.0
    return float(value) or -1.0


def _operation(what, op):
    if op not in OPERATIONS:
        raise InvalidError(f'{what} knows {", ".join(OPERATIONS)}, not "{op}"')
    return OPERATIONS[op]


class Session:
    """One rank of a job. The arguments are the Python keywords of docs/reference.md; what is left out comes from
    the environment that `ringwood run` makes.

    Opening waits until all ranks are there. `ready` may be called from any thread; everything else
    from one thread at a time. `selection`: its chunk, method and clip norm. Used in a `with`, an exception
    closes the session with its sentence, and the other ranks stop with this rank's name; so does an exception
    that ends the program.
    """

    def __init__(self, coordinator=None, rank=None, world=None, **options):
        self._handle = None
        self._process = os.getpid()
        self._leaving = []    # what is called once it is closed
        ending.install()
        self._library = load()
        given = {"coordinator": coordinator or None, "rank": rank, "world": world, **options}
        entry = enter(given)
        handle = c_void_p()
        try:
            with entry.environment():
                options = self._library.options(given)
                self._library.wait("ringwood_open", byref(options), byref(handle))
        except BaseException as error:
            if handle:  # Ctrl-C came with the last rank
                self._library.waits.ringwood_close(handle, sentence_of(error).encode(errors="replace"))
            entry.close()
            raise
        self.selection = (options.sparse_chunk, (options.sparse_method or b"exact").decode(),
                          options.clip_norm)
        self.wire = (options.wire or b"native").decode()
        self._handle = handle
        self.when_closed(entry.close)
        self.opened = self.rank, self.world, self.step
        self._registered = RegisteredGradients()
        self._step_open = False  # a ready has come since the last step that was finished
        self._given = []  # what the state's items are copied from
        self._on_request = False  # they are forgotten with the step
        ending.watch(self)

    # ---- gradients ----

    def register(self, name, gradient, route="auto", density=0.01, momentum=None, clip_norm=None,
                 device=None, stream=None, residual_decay=1.0, turn=0, turns=1, wire_reach=1.0):
        """Adds a tensor, before the first step; the same order and shapes on every rank. `gradient`:
        contiguous float32 array or tensor, or (pointer, elements); a reference is kept. Or a bfloat16 tensor: it is
        dense, and its sums travel as bfloat16, which needs the wire "native". `momentum`: correction while it is
        sparse, `clip_norm`: of its gradient while it is sparse; None: the session's. Returns its id.

        CUDA tensors are exchanged where they are, if all of the job's lie on one device a rank. `stream`: the
        handle of the CUDA stream on which the gradient is made and used, by default the one that is current
        now; `device`: where a pointer points to.

        `residual_decay`: what is kept of the residual in each step while it is sparse. `turn`, `turns`: a dense or
        sparse tensor in host memory that is exchanged only in the steps whose number is `turn` modulo `turns`; in the
        others it is announced as ever, is not read and becomes 0. `wire_reach`: of a block's largest values, where int4
        ends; the smallest of all tensors holds for all."""
        self._registered.refuse_registered(name)
        given = gradient_of(name, gradient, device)
        tensor = Tensor(size=ctypes.sizeof(Tensor), name=name.encode(), data=given.address,
                        elements=given.elements, type=ELEMENT_TYPES[given.kind], route=route.encode(),
                        density=density, momentum=_own(momentum), clip_norm=_own(clip_norm),
                        residual_decay=0.0 if residual_decay == 1 else residual_decay or -1.0,
                        turn=turn, turns=0 if turns == 1 and turn == 0 else turns, wire_reach=wire_reach)
        if given.device is not None:
            tensor.memory, tensor.device = MEMORY["cuda"], given.device
            tensor.stream = stream_of(gradient, given.device) if stream is None else stream
        identity = c_int(-1)
        self._call("ringwood_register", byref(tensor), byref(identity))
        self._registered.add(name, identity.value, given)
        return identity.value

    def rebind(self, name, gradient):
        """Sets the new place of a reallocated gradient: same elements, used from the next ready on. None: its memory is
        freed, and a new place follows before the next ready or replay."""
        identity, place = self._registered.id_of(name), self._registered.places[name]
        if gradient is None:
            self._refuse_in_use(identity, place)
            place.let_go()
            return
        address = place.address_in(gradient)
        if not address:
            given = self._registered.new_place(name, gradient)
            gradient, address = given.owner, given.address
        if address != place.address:
            code = self._library.rebind(self._handle, identity, address)
            if code:
                self._check_open()
                self._library.check(code)
        place.owner, place.address = gradient, address

    def _refuse_in_use(self, identity, place):
        """Before its memory is freed: the library says whether a step reads it, as before any move."""
        if self._step_open and self._handle is not None and os.getpid() == self._process:
            self._library.check(self._library.rebind(self._handle, identity, place.address))

    def agree(self):
        """Fixes the table and agrees on the plan with all ranks; the first step does it if needed."""
        self._call("ringwood_agree")

    @property
    def plan(self):
        """The plan as text, for people; None before `agree`."""
        self._check_open()
        text = self._library.waits.ringwood_plan_text(self._handle)
        return text.decode() if text else None

    def route(self, name):
        """The tensor's route in the present plan: "ring" (dense) or "tree" (sparse); None before `agree`."""
        identity = self._registered.id_of(name)
        self._check_open()
        text = self._library.quick.ringwood_route(self._handle, identity)
        return text.decode() if text else None

    def begin_step(self, weight=1.0, pass_number=0):
        """Opens the next step. `weight`: samples of this rank in it; 0 is allowed. `pass_number`: where several steps may
        come before one update of the parameters, which of them this is, from 1; where ranks of a fixed job differ in it,
        finish_step fails on all of them, says who, and has applied nothing."""
        self._call("ringwood_begin_pass", float(weight), pass_number)

    def loaded(self):
        """The data of the next step is there, what follows is computation: where this rank holds the others up, the
        log says for which of the two. Optional; begin_step says it too. Any thread."""
        self._check_open()
        self._library.check(self._library.quick.ringwood_loaded(self._handle))

    def leave_after_step(self):
        """Of an elastic job: the next finish_step is this rank's last. The others go on without it, and take over
        what its tensors owe; only `close` follows."""
        self._call("ringwood_leave_after_step")

    def leave(self, leaves=True):
        """Of an elastic job: a call to all ranks between two steps, with `leaves` on those that leave: the others go on
        without them, and take over what their tensors owe; only `close` follows. Where none or all leave, nothing
        happens. AbortedError: as of a collective."""
        self._call("ringwood_leave", int(bool(leaves)))

    def ask_to_end(self):
        """This process has to end soon: `ending` of the next step's result is True on all ranks, which then save a
        checkpoint, wait for it and exit with 75; in an elastic job those do that were asked, after `leave`.
        rw.Checkpoint does all of it on SIGTERM. Any thread."""
        self._check_open()
        self._library.check(self._library.quick.ringwood_ask_to_end(self._handle))

    def ready(self, name):
        """The gradient is complete in memory. Any thread; enqueues only. `name`: or the id that register
        returned, which spares the check that the memory is still where it was."""
        identity = name if isinstance(name, int) else self._registered.still_there(name)
        self._step_open = True
        code = self._library.ready(self._handle, identity)
        if code:
            self._check_open()
            self._library.check(code)

    def finish_step(self):
        """Waits for every group, votes, commits; the gradients then hold the weighted average. After an
        error nothing was applied."""
        numbers = StepNumbers(size=ctypes.sizeof(StepNumbers))
        self._call("ringwood_finish_step", byref(numbers))
        self._step_open = False
        if self._on_request:
            self._given = []
        return step_result_of(numbers)

    def residual(self, name):
        """This rank's error-feedback residual of the tensor; zeros for a dense one without rounding."""
        identity = self._registered.id_of(name)
        out = np.empty(self._registered.places[name].elements, np.float32)
        self._call("ringwood_residual", identity, out.ctypes.data, out.size)
        return out

    # ---- collectives outside the plan, in the same order on every rank ----

    def allreduce(self, array, op="sum"):
        """In place, and returned. `op`: sum, average, max, min, product."""
        pointer, elements, kind, _ = region_of("allreduce", array)
        self._call("ringwood_allreduce", pointer, elements, ELEMENT_TYPES[kind],
                   _operation("allreduce", op))
        return array

    def share(self, elements):
        """The slice of `elements` that is this rank's share: cut evenly in rank order, the first shares
        longer by one where they do not divide."""
        begin, count = c_uint64(), c_uint64()
        self._call("ringwood_share", elements, byref(begin), byref(count))
        return slice(begin.value, begin.value + count.value)

    def reduce_scatter(self, array, op="sum"):
        """This rank's share of `array`, combined over all ranks: a flat view of it. The rest of the
        array stays as it is."""
        pointer, elements, kind, _ = region_of("reduce_scatter", array)
        self._call("ringwood_reduce_scatter", pointer, elements, ELEMENT_TYPES[kind],
                   _operation("reduce_scatter", op))
        return array.reshape(-1)[self.share(elements)]

    def all_gather(self, array):
        """Collects every rank's share of `array`, in place, and returns it."""
        pointer, elements, kind, _ = region_of("all_gather", array)
        self._call("ringwood_all_gather", pointer, elements, ELEMENT_TYPES[kind])
        return array

    def broadcast(self, array, root=0):
        """Broadcasts the root's bytes, in place, and returns the array."""
        pointer, elements, _, width = region_of("broadcast", array)
        self._call("ringwood_broadcast", pointer, elements * width, root)
        return array

    # ---- checkpoints ----

    def checkpoint(self, shared=None, per_rank=None, own=None):
        """On every rank, after the same step. Copies the items (name -> bytes, array or tensor) with the session's own
        state and returns; they are sent to the store in the background. `shared` is the same on every rank,
        each rank has a `per_rank` of its own; `own` is the former name of `per_rank`. Arrays and tensors keep
        their element type and shape for `ringwood checkpoint export`."""
        items, _owners = items_of(shared=shared or {}, per_rank={**(own or {}), **(per_rank or {})})
        self._call("ringwood_checkpoint", items, len(items))

    def checkpoint_wait(self):
        """Waits until the checkpoint in flight is durable; raises its error."""
        self._call("ringwood_checkpoint_wait")

    @property
    def checkpoint_progress(self):
        """How far the newest checkpoint is. Any thread; does not wait."""
        self._check_open()
        numbers = CheckpointNumbers(size=ctypes.sizeof(CheckpointNumbers))
        self._library.check(self._library.quick.ringwood_checkpoint_state(self._handle, byref(numbers)))
        return checkpoint_progress_of(numbers)

    def restore(self, name, scope="shared"):
        """The bytes of an item of the checkpoint that the session resumed from."""
        if scope not in SCOPES:
            raise InvalidError(f'an item is "shared" or "per_rank", not "{scope}"')
        return self._bytes_of_item("ringwood_restore", name.encode(), SCOPES[scope])

    # ---- the update log ----

    @property
    def replays(self):
        """Steps after the checkpoint that the update log has: to be replayed before the first step."""
        return self._number("ringwood_replays")

    def replay(self):
        """Does the next of them again: the gradients hold the averages of then. Returns its StepResult, of which step,
        skipped, total_weight, members and contributors are those of then, and its note."""
        self._registered.all_still_there()
        numbers = StepNumbers(size=ctypes.sizeof(StepNumbers))
        self._call("ringwood_replay", byref(numbers))
        result = step_result_of(numbers)
        size = c_uint64()
        self._call("ringwood_replayed_note", None, 0, byref(size))
        note = ctypes.create_string_buffer(max(1, size.value))
        self._call("ringwood_replayed_note", note, size.value, byref(size))
        return result, note.raw[:size.value]

    @property
    def logs(self):
        """Whether this rank brings the steps to the update log, at present: its note is the one that is kept."""
        return self._number("ringwood_logs") == 1

    @property
    def logged(self):
        """Whether the job has an update log."""
        return self._number("ringwood_logs") > 0

    def note(self, content):
        """Bytes that are kept with each step from the next one on, and come back when it is replayed: what the
        optimizer needs beside the averages. At most 64 KiB."""
        self._call("ringwood_note", content, len(content))

    # ---- the state of an elastic job, for ranks that come to it ----

    @property
    def receiving(self):
        """Whether this rank came to a job that runs: its first finish_step needs no gradients, and brings the state
        of the others with that step's averages. No collective before it."""
        return bool(self._number("ringwood_receiving"))

    @property
    def state_wanted(self):
        """Whether finish_step was refused because a rank that comes wants the state."""
        return bool(self._number("ringwood_state_wanted"))

    def state_on_request(self):
        """From now on finish_step is refused when the state is wanted: call `give_state` and finish_step again."""
        self._call("ringwood_state_on_request", 1)
        self._on_request = True

    def give_state(self, items):
        """`items`: name -> bytes, array or tensor, copied by the next finish_step."""
        self._given = []
        for name, value in items.items():
            pointer, size, owner = bytes_of(name, value)
            self._given.append(owner)
            self._call("ringwood_state_item", name.encode(), pointer, size)

    def received(self, name):
        """The bytes of an item of the others, after a step that had `received` and before the next finish_step."""
        return self._bytes_of_item("ringwood_received", name.encode())

    # ---- where we are ----

    def device_support(self, device=None):
        """What stands against exchanging tensors of a CUDA device in place, or "": what this process lacks, or that the
        network is not declared private, as NCCL encrypts nothing. `device`: its number."""
        self._check_open()
        code = self._library.waits.ringwood_session_device_support(self._handle, -1 if device is None else device)
        return (self._library.quick.ringwood_last_error() or b"").decode(errors="replace") if code else ""

    def _number(self, function):
        self._check_open()
        return getattr(self._library.quick, function)(self._handle)

    @property
    def rank(self):
        return self._number("ringwood_rank")

    @property
    def slot(self):
        """The rank as this process was started, by which logs, errors, samplers and a step's result name it. It never
        changes."""
        return self._number("ringwood_slot")

    @property
    def world(self):
        return self._number("ringwood_world")

    @property
    def epoch(self):
        """The number of this membership; never a pass over the data."""
        return self._number("ringwood_epoch")

    @property
    def step(self):
        """Committed steps."""
        return self._number("ringwood_step")

    @property
    def resumed(self):
        """Whether the session started from a checkpoint."""
        return bool(self._number("ringwood_resumed"))

    @property
    def closed(self):
        return self._handle is None

    # ---- the end ----

    def close(self, failure=None):
        """Leaves the job cleanly. With `failure`, an error message, the other ranks stop with an error that names
        this one. Safe to call twice; does nothing in a forked child."""
        handle, self._handle = self._handle, None
        if handle is None or os.getpid() != self._process:
            return
        ending.forget(self)
        try:
            self._library.wait("ringwood_close", handle, failure.encode(errors="replace") if failure else None)
        finally:
            while self._leaving:
                self._leaving.pop()()

    def when_closed(self, action):
        """Has `action` called once, after the session has left the job."""
        self._leaving.append(action)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
            return
        try:
            self.close(sentence_of(error))
        except Exception as second:  # the first error is the one to report
            error.add_note(f"closing the session failed too: {second}")

    # ---- inside ----

    def _bytes_of_item(self, function, *names):
        size = c_uint64()
        self._call(function + "_bytes", *names, byref(size))
        out = bytearray(size.value)
        place = (ctypes.c_char * max(1, size.value)).from_buffer(out) if out else None
        self._call(function, *names, ctypes.addressof(place) if out else None, size.value)
        del place
        return bytes(out)

    def _check_open(self):
        if self._handle is None:
            raise RefusedError("the session is closed")
        if os.getpid() != self._process:
            raise ForkedError(f"the session belongs to process {self._process}; process {os.getpid()} "
                              "was forked from it and cannot use it")

    def _call(self, function, *arguments):
        self._check_open()
        try:
            self._library.wait(function, self._handle, *arguments)
        except KeyboardInterrupt as stopped:
            if self._library.interrupts.ended():  # the others hear why, also where a prompt catches it
                with contextlib.suppress(RingwoodError):
                    self.close(sentence_of(stopped))
            raise
