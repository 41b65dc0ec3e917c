"""Where the session reads and writes the gradient of one parameter.

In place: autograd's own buffer, if it is contiguous and of a type that is exchanged as it is: float32, and dense
bfloat16 where the wire is "native". Staged: a buffer of ours beside it, for everything else: float16 and
complex64, strides such as channels_last, gradients that still carry a GradScaler's factor; a buffer in host memory for
CUDA tensors where the session reads no others (placement.py, device.py). It is bfloat16 where that is exchanged, and
float32 elsewhere. A staged gradient is copied in when it is complete and copied back after the commit; it costs a pass
over memory each way and 4 bytes a parameter, or 2.

`take` is called when the gradient is complete and says whether the session may read the buffer now; `give`
after the commit, when the buffer holds the average; `skip` after a step that was skipped, when every rank's
gradient becomes NaN as an all-reduce would make it: then every rank's GradScaler, of whatever make, leaves the
step out and lowers its factor. `settle` calls the last two.
"""

import torch

from .content import plain, refuse_part
from .device import StagedFromDevice
from .errors import InvalidError
from .staged import Staged

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.complex64)
DEVICES = ("cpu", "cuda")


def pairs_of(named_parameters):
    """[(name, parameter)], as model.named_parameters() gives them; or a dict."""
    try:
        pairs = [(name, parameter) for name, parameter in getattr(named_parameters, "items", lambda: named_parameters)()]
    except (TypeError, ValueError):
        pairs = [(None, None)]
    if not all(isinstance(name, str) and torch.is_tensor(parameter) for name, parameter in pairs):
        raise InvalidError(f"named_parameters is a {type(named_parameters).__name__} of other things than pairs of a name "
                           "and a parameter: pass model.named_parameters()")
    return pairs


def once(pairs):
    """Each parameter under its first name, as DistributedDataParallel has it: exchanged as two tensors, a parameter of two
    names (tied weights) would have two residuals and two velocities."""
    first = {}
    for name, parameter in pairs:
        first.setdefault(id(parameter), (name, parameter))
    return list(first.values())


def is_empty(parameter):
    """Whether nothing of it travels. A lazy module's has no shape yet, and is refused with its name."""
    return not torch.nn.parameter.is_lazy(parameter) and parameter.numel() == 0


def types_of(named):
    """Name -> parameter as settings that ranks compare: slots have one type, whatever the parameters' is."""
    return {f'the type of "{name}"': str(parameter.dtype).removeprefix("torch.") for name, parameter in named.items()}


def exchanged_as(parameter, session, recipe, scaled):
    """The type that the session sees: the parameter's, or float32. What is kept beside averages (momentum correction) and
    what a GradScaler's factor is divided out of is float32."""
    own = (parameter.dtype == torch.bfloat16 and session.wire == "native" and recipe.route == "dense"
           and not recipe.velocity and not scaled)
    return torch.bfloat16 if own else torch.float32


def slot_of(name, parameter, stream, scaled, bucketed=False, dtype=torch.float32):
    """The cheapest slot that fits a parameter with elements. `stream`: as placement.py chose it. `scaled`: a GradScaler multiplies the
    loss. `bucketed`: the gradients are views of DistributedDataParallel's buckets. `dtype`: what exchanged_as says."""
    refuse_part(name, parameter)
    if torch.nn.parameter.is_lazy(parameter):
        raise InvalidError(f'the parameter "{name}" of a lazy module has no shape yet: run a batch through the model first')
    if parameter.dtype not in TYPES or parameter.device.type not in DEVICES:
        raise InvalidError(f'the parameter "{name}" is {parameter.dtype} on {parameter.device}; '
                           "gradients must be float32, bfloat16, float16 or complex64 on the CPU or a CUDA device. float64 is what "
                           'DistributedDataParallel exchanges over init_process_group("ringwood")')
    if parameter.device.type != torch.device(stream.device).type:
        return StagedFromDevice(name, parameter, stream, bucketed, dtype)
    if parameter.dtype == dtype and parameter.is_contiguous() and not scaled:
        return (InBucket if bucketed else InPlace)(name, parameter, stream)
    return Staged(name, parameter, stream, bucketed, dtype)


def settle(slots, stream, velocity, skipped, scale):
    """After the vote: the parameters' gradients become averages, or what a skipped step leaves."""
    with stream.work():
        if not skipped:
            velocity.replace()
        for slot in slots:
            if skipped:
                slot.skip()
            else:
                slot.give(scale)


class InPlace:
    def __init__(self, name, parameter, stream):
        self.name = name
        self.parameter = parameter
        self._stream = stream
        if parameter.grad is None or not parameter.grad.is_contiguous():
            parameter.grad = torch.zeros_like(parameter)
        self.buffer = parameter.grad  # the memory that the session knows; None: it was let go
        self._address = self.buffer.data_ptr()

    def take(self, session, gradient, scale):
        """Where the training loop replaced the gradient (zero_grad with set_to_none=True), the session
        hears of its new place."""
        if gradient.data_ptr() != self._address:
            if gradient.is_neg() or not gradient.is_contiguous():
                gradient = self.parameter.grad = plain(gradient).contiguous()
            self._move(session, gradient)
        self._stream.follow(gradient)
        return True

    def _move(self, session, gradient):
        session.rebind(self.name, gradient)  # first: what it refuses is no place of this slot's
        self.buffer, self._address = gradient, gradient.data_ptr()

    def let_go(self, session):
        """The parameter's gradient is gone, and backward makes a new one: its memory is free until then."""
        session.rebind(self.name, None)
        self.buffer, self._address = None, 0

    def hold(self, session):
        """Memory for the average of a step in which backward makes no gradient: new where it was let go, or where
        model.to() has moved it. Nothing is in it yet."""
        if self.buffer is None or self.buffer.data_ptr() != self._address:
            self._move(session, torch.empty_like(self.parameter, memory_format=torch.contiguous_format))

    def clear(self, session):
        """Without a gradient it counts as zero."""
        self.hold(session)
        with self._stream.work(self.buffer):
            self.buffer.zero_()

    def give(self, scale):
        if self.parameter.grad is not self.buffer:
            self.parameter.grad = self.buffer

    def skip(self):
        self.buffer.fill_(float("nan"))
        self.give(1)


class InBucket:
    """A view of a bucket of DistributedDataParallel, which moves when the buckets are rebuilt."""

    def __init__(self, name, parameter, stream):
        self.name = name
        self.parameter = parameter
        self.buffer = torch.zeros_like(parameter, requires_grad=False)  # until the first bucket
        self._stream = stream
        self._address = 0

    def take(self, session, gradient, scale):
        if gradient.data_ptr() != self._address:
            session.rebind(self.name, gradient)
            self.buffer, self._address = gradient, gradient.data_ptr()
        self._stream.follow(gradient)
        return True

    def give(self, scale):
        """Does nothing: the average is in the bucket."""

    def skip(self):
        self.buffer.fill_(float("nan"))
