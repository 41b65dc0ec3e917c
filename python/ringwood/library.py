"""libringwood.so through ctypes: where it is, its structs and the signatures of its functions.

Looked for in this order: the file named by RINGWOOD_LIBRARY, build/release/lib of the repository that
this package lies in, the package's own folder, the lib folder that this package is installed below (links to
the package are followed). It is loaded with local scope (RTLD_LOCAL), so that its gRPC and protobuf never meet those of another library in
the process.

Two views of one library: `waits` (ctypes.CDLL) gives up Python's lock during a call, for everything
that may wait; `quick` (ctypes.PyDLL) keeps it, for ringwood_ready, which only enqueues: giving the lock
up and getting it back from a busy thread would cost milliseconds.
"""

import ctypes
import operator
import os
import socket
import threading
from ctypes import (POINTER, Structure, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32,
                    c_uint64, c_void_p)

from .errors import InternalError, InvalidError, NotFoundError, RefusedError, error_of
from .interface.interrupts import Interrupts
from .interface.lent import identity_of, lent


class Option(Structure):
    """ringwood_option: a field of ringwood_options as the loaded library has it."""
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("offset", c_size_t), ("type", c_int),
                ("keyword", c_char_p), ("help", c_char_p)]


class Tensor(Structure):
    """ringwood_tensor."""
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("data", c_void_p), ("elements", c_uint64),
                ("type", c_int), ("route", c_char_p), ("density", c_double), ("momentum", c_double),
                ("memory", c_int), ("device", c_int), ("stream", c_void_p), ("clip_norm", c_double),
                ("residual_decay", c_double), ("turn", c_int), ("turns", c_int),
                ("wire_reach", c_double)]


class StepNumbers(Structure):
    """ringwood_step_result."""
    _fields_ = [("size", c_size_t), ("step", c_uint64), ("skipped", c_int),
                ("total_weight", c_double), ("dense_bytes", c_uint64), ("sparse_bytes", c_uint64),
                ("dense_equivalent_bytes", c_uint64), ("members", POINTER(c_int)),
                ("member_count", c_size_t), ("contributors", POINTER(c_int)),
                ("contributor_count", c_size_t), ("exchanged_again", c_int), ("received", c_int),
                ("checkpoint_due", c_int), ("ending", c_int)]


class CheckpointNumbers(Structure):
    """ringwood_checkpoint_progress."""
    _fields_ = [("size", c_size_t), ("step", c_uint64), ("under_way", c_int), ("bytes", c_uint64), ("sent", c_uint64),
                ("arena", c_uint64), ("seconds", c_double), ("completed", c_uint64), ("failed", c_uint64)]


class SamplerOptions(Structure):
    """ringwood_sampler_options."""
    _fields_ = [("size", c_size_t), ("samples", c_uint64), ("batch", c_uint64), ("seed", c_uint64),
                ("world", c_int), ("ahead", c_int), ("in_order", c_int)]


class Item(Structure):
    """ringwood_item."""
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("data", c_void_p), ("bytes", c_uint64),
                ("scope", c_int), ("dtype", c_char_p), ("shape", POINTER(c_uint64)), ("dimensions", c_size_t)]


class PullOptions(Structure):
    """ringwood_pull_options."""
    _fields_ = [("size", c_size_t), ("server", c_char_p), ("token", c_char_p), ("job", c_uint64),
                ("newest_stored", c_int), ("timeout_seconds", c_double), ("items", POINTER(c_char_p)),
                ("item_count", c_size_t), ("rank", POINTER(c_int)), ("token_file", c_char_p),
                ("identity", c_char_p)]


class PulledState(Structure):
    """ringwood_pulled_state."""
    _fields_ = [("size", c_size_t), ("job", c_uint64), ("epoch", c_uint64), ("step", c_uint64),
                ("unix_seconds", c_int64), ("items", c_size_t), ("bytes", c_uint64), ("of_ranks", c_size_t)]


class PulledItem(Structure):
    """ringwood_pulled_item."""
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("bytes", c_uint64), ("dtype", c_char_p),
                ("shape", POINTER(c_uint64)), ("dimensions", c_size_t)]


class CollectiveCall(Structure):
    """ringwood_collective_call."""
    _fields_ = [("size", c_size_t), ("collective", c_int), ("type", c_int), ("op", c_int), ("root", c_int),
                ("input", c_void_p), ("input_elements", c_uint64), ("output", c_void_p),
                ("output_elements", c_uint64), ("shares", POINTER(c_uint64)), ("receives", POINTER(c_uint64)),
                ("about", c_uint64)]


ELEMENT_TYPES = {"float32": 1, "bfloat16": 2, "float16": 3, "float64": 4, "int32": 5, "int64": 6,
                 "uint8": 7}
OPERATIONS = {"sum": 0, "average": 1, "max": 2, "min": 3, "product": 4}
MEMORY = {"host": 0, "cuda": 1}
SCOPES = {"shared": 1, "per_rank": 2, "own": 2}  # "own": the former name

_reading = threading.Lock()  # of the environment, by one thread at a time
# RINGWOOD_OPTION_*: (the field's type, a Python value as the field has it)
_OPTION_TYPES = {
    1: (c_char_p, os.fsencode),
    2: (c_int, operator.index),
    3: (c_double, float),
    4: (c_int, lambda on: 1 if on else 0),
    5: (c_int, lambda on: 1 if on else -1),
    6: (c_int, lambda resume: 2 if resume == "auto" else operator.index(resume)),
    7: (c_uint64, operator.index),
}

_SESSION = c_void_p
_SAMPLER = c_void_p
_PULLED = c_void_p
_COMMUNICATOR = c_void_p
_WORK = c_void_p
_WAITING = {  # name: (result, arguments)
    "ringwood_describe_option": (c_int, [c_size_t, POINTER(Option)]),
    "ringwood_options_from_environment": (c_int, [c_void_p, c_size_t]),
    "ringwood_open": (c_int, [c_void_p, POINTER(_SESSION)]),
    "ringwood_session_device_support": (c_int, [_SESSION, c_int]),
    "ringwood_close": (c_int, [_SESSION, c_char_p]),
    "ringwood_interrupt": (None, []),
    "ringwood_register": (c_int, [_SESSION, POINTER(Tensor), POINTER(c_int)]),
    "ringwood_agree": (c_int, [_SESSION]),
    "ringwood_plan_text": (c_char_p, [_SESSION]),
    "ringwood_begin_pass": (c_int, [_SESSION, c_double, c_uint32]),
    "ringwood_leave_after_step": (c_int, [_SESSION]),
    "ringwood_leave": (c_int, [_SESSION, c_int]),
    "ringwood_finish_step": (c_int, [_SESSION, POINTER(StepNumbers)]),
    "ringwood_residual": (c_int, [_SESSION, c_int, c_void_p, c_uint64]),
    "ringwood_allreduce": (c_int, [_SESSION, c_void_p, c_uint64, c_int, c_int]),
    "ringwood_broadcast": (c_int, [_SESSION, c_void_p, c_uint64, c_int]),
    "ringwood_share": (c_int, [_SESSION, c_uint64, POINTER(c_uint64), POINTER(c_uint64)]),
    "ringwood_reduce_scatter": (c_int, [_SESSION, c_void_p, c_uint64, c_int, c_int]),
    "ringwood_all_gather": (c_int, [_SESSION, c_void_p, c_uint64, c_int]),
    "ringwood_checkpoint": (c_int, [_SESSION, POINTER(Item), c_size_t]),
    "ringwood_checkpoint_wait": (c_int, [_SESSION]),
    "ringwood_restore_bytes": (c_int, [_SESSION, c_char_p, c_int, POINTER(c_uint64)]),
    "ringwood_restore": (c_int, [_SESSION, c_char_p, c_int, c_void_p, c_uint64]),
    "ringwood_state_item": (c_int, [_SESSION, c_char_p, c_void_p, c_uint64]),
    "ringwood_state_on_request": (c_int, [_SESSION, c_int]),
    "ringwood_received_bytes": (c_int, [_SESSION, c_char_p, POINTER(c_uint64)]),
    "ringwood_received": (c_int, [_SESSION, c_char_p, c_void_p, c_uint64]),
    "ringwood_replay": (c_int, [_SESSION, POINTER(StepNumbers)]),
    "ringwood_note": (c_int, [_SESSION, c_void_p, c_uint64]),
    "ringwood_replayed_note": (c_int, [_SESSION, c_void_p, c_uint64, POINTER(c_uint64)]),
    "ringwood_pull": (c_int, [POINTER(PullOptions), POINTER(_PULLED)]),
    "ringwood_pulled_describe": (c_int, [_PULLED, POINTER(PulledState)]),
    "ringwood_pulled_describe_item": (c_int, [_PULLED, c_size_t, POINTER(PulledItem)]),
    "ringwood_pulled_read": (c_int, [_PULLED, c_size_t, c_void_p, c_uint64]),
    "ringwood_pulled_free": (None, [_PULLED]),
    "ringwood_wait": (c_int, [_WORK, c_double]),
    "ringwood_strerror": (c_char_p, [c_int]),
    "ringwood_version": (c_char_p, []),
    "ringwood_digest": (c_uint64, [c_void_p, c_uint64]),
}
_QUICK = {
    "ringwood_ready": (c_int, [_SESSION, c_int]),
    "ringwood_rebind": (c_int, [_SESSION, c_int, c_void_p]),
    "ringwood_loaded": (c_int, [_SESSION]),
    "ringwood_ask_to_end": (c_int, [_SESSION]),
    "ringwood_route": (c_char_p, [_SESSION, c_int]),
    "ringwood_rank": (c_int, [_SESSION]),
    "ringwood_slot": (c_int, [_SESSION]),
    "ringwood_world": (c_int, [_SESSION]),
    "ringwood_epoch": (c_uint64, [_SESSION]),
    "ringwood_step": (c_uint64, [_SESSION]),
    "ringwood_resumed": (c_int, [_SESSION]),
    "ringwood_receiving": (c_int, [_SESSION]),
    "ringwood_state_wanted": (c_int, [_SESSION]),
    "ringwood_replays": (c_uint64, [_SESSION]),
    "ringwood_logs": (c_int, [_SESSION]),
    "ringwood_checkpoint_state": (c_int, [_SESSION, POINTER(CheckpointNumbers)]),
    "ringwood_last_error": (c_char_p, []),
    "ringwood_communicator_make": (c_int, [_SESSION, POINTER(c_int), c_size_t, c_uint32,
                                           POINTER(_COMMUNICATOR)]),
    "ringwood_communicator_free": (None, [_COMMUNICATOR]),
    "ringwood_start": (c_int, [_COMMUNICATOR, POINTER(CollectiveCall), POINTER(_WORK)]),
    "ringwood_done": (c_int, [_WORK]),
    "ringwood_work_free": (None, [_WORK]),
    "ringwood_sampler_make": (c_int, [POINTER(SamplerOptions), POINTER(_SAMPLER)]),
    "ringwood_sampler_free": (None, [_SAMPLER]),
    "ringwood_sampler_next": (c_int, [_SAMPLER, c_int, c_int, c_void_p, c_uint64, POINTER(c_uint64)]),
    "ringwood_sampler_committed": (c_int, [_SAMPLER, POINTER(StepNumbers)]),
    "ringwood_sampler_pass": (c_uint64, [_SAMPLER]),
    "ringwood_sampler_state": (c_int, [_SAMPLER, c_void_p, c_uint64, POINTER(c_uint64)]),
    "ringwood_sampler_restore": (c_int, [_SAMPLER, c_void_p, c_uint64, c_int]),
}


def library_places():
    """The files tried, first match wins."""
    override = os.environ.get("RINGWOOD_LIBRARY")
    if override:
        return [override]
    package = os.path.dirname(os.path.realpath(__file__))
    repository = os.path.dirname(os.path.dirname(package))
    return [os.path.join(repository, "build", "release", "lib", "libringwood.so"),
            os.path.join(package, "libringwood.so"),
            os.path.join(os.path.dirname(repository), "libringwood.so")]


def find_program():
    """The program `ringwood` of the library's build or package. Files tried, first match wins, as in library_places."""
    package = os.path.dirname(os.path.realpath(__file__))
    above = [package]
    while len(above) < 6:
        above.append(os.path.dirname(above[-1]))
    named = os.environ.get("RINGWOOD_LIBRARY")
    build = [os.path.dirname(os.path.dirname(os.path.abspath(named)))] if named else []
    folders = [*build, os.path.join(above[2], "build", "release"), package,
               above[4], above[5]]  # the prefix: below it lib/ringwood/python or lib/TRIPLET/ringwood/python
    places = [os.path.join(folder, "bin", "ringwood") for folder in folders]
    program = next((place for place in places if os.path.isfile(place)), None)
    if program is None:
        raise NotFoundError(f"the program ringwood was not found (looked at {', '.join(places)}). Build it with "
                            "`./dev build`")
    return program


class Library:
    """The loaded library. Calls return normally or raise the matching RingwoodError."""

    def __init__(self, path):
        if len(os.fsencode(socket.gethostname())) > 63:  # UCX ends the process: docs/troubleshooting.md
            raise RefusedError("this host has a name of 64 characters, and UCX takes 63: give it a shorter one "
                               "(hostnamectl set-hostname NAME)")
        try:
            self.waits = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
            self.quick = ctypes.PyDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
            self._declare()
        except (OSError, AttributeError) as failure:
            raise InvalidError(f"cannot use the library {path}: {failure}. Build it again with "
                               "`./dev build`") from failure
        self.path = path
        self.interrupts = Interrupts(self.waits.ringwood_interrupt)
        self.ready, self.rebind = self.quick.ringwood_ready, self.quick.ringwood_rebind
        self._read_options()

    def _declare(self):
        for view, functions in ((self.waits, _WAITING), (self.quick, _QUICK)):
            for name, (result, arguments) in functions.items():
                function = getattr(view, name)
                function.restype, function.argtypes = result, arguments

    def check(self, code):
        if code:
            sentence = self.quick.ringwood_last_error() or self.waits.ringwood_strerror(code)
            raise error_of(code, (sentence or b"").decode(errors="replace"))

    def wait(self, name, *arguments):
        """A call that may wait for others, whose wait Ctrl-C ends."""
        self.check(self.interrupts.run(getattr(self.waits, name), arguments))

    def _read_options(self):
        """The struct of a session's options, and keyword -> (its field, how a value is given)."""
        option, options = Option(size=ctypes.sizeof(Option)), []
        while self.waits.ringwood_describe_option(len(options), byref(option)) == 0:
            options.append((option.offset, option.name.decode(), option.type, option.keyword))
        fields = [(name, _OPTION_TYPES[kind][0]) for _, name, kind, _ in sorted(options)]
        self.Options = type("Options", (Structure,), {"_fields_": [("size", c_size_t), *fields]})
        for offset, name, *_ in options:
            if getattr(self.Options, name).offset != offset:
                raise InternalError(f"{self.path} has the option {name} at {offset}, where this package "
                                    f"has it at {getattr(self.Options, name).offset}")
        self.keywords = {keyword.decode(): (name, _OPTION_TYPES[kind][1])
                         for _, name, kind, keyword in options if keyword}

    def options(self, given):
        """ringwood_options: of the environment, and over it what is `given`, by keyword (None: nothing)."""
        with _reading, lent(identity_of(given)):  # what is given need not be there, too
            options = self.options_from_environment()
        for keyword, value in given.items():
            if keyword not in self.keywords:
                raise TypeError(f'a session has no option "{keyword}"; there are {", ".join(self.keywords)}')
            if value is not None:
                name, give = self.keywords[keyword]
                setattr(options, name, give(value))
        return options

    def options_from_environment(self):
        options = self.Options(size=ctypes.sizeof(self.Options))
        self.check(self.waits.ringwood_options_from_environment(byref(options), options.size))
        return options

    @property
    def version(self):
        return self.waits.ringwood_version().decode()

    def digest(self, content):
        """Of a NumPy array that is contiguous; at memory speed, and without Python's lock."""
        return self.waits.ringwood_digest(content.ctypes.data, content.nbytes)


_loaded = {}  # path -> Library: a shared library can be loaded only once in a process


def load():
    """Returns the library, loading it at the first call."""
    places = library_places()
    for path in places:
        if os.path.exists(path):
            if path not in _loaded:
                _loaded[path] = Library(path)
            return _loaded[path]
    raise InvalidError(f"libringwood.so was not found (looked at {', '.join(places)}). Build it with "
                       "`./dev build` or name it in RINGWOOD_LIBRARY")
