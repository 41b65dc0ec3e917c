"""Addresses of arrays, tensors and pointers. torch is recognised by its methods, not imported."""

import sys

import numpy as np

from .errors import InvalidError
from .library import ELEMENT_TYPES


GRADIENTS = ("float32", "bfloat16")  # their element types


def _is_tensor(value):
    return hasattr(value, "data_ptr") and hasattr(value, "is_contiguous")


class Gradient:
    """A gradient as the library takes it. `owner`: to be kept alive; `address`: the one that the library knows;
    `kind`: float32 or bfloat16; `device`: the CUDA device that it lies on, None: host memory."""
    __slots__ = "owner", "address", "elements", "device", "kind", "_dtype"

    def __init__(self, owner, address, elements, device=None, kind="float32"):
        self.owner, self.address, self.elements, self.device, self.kind = owner, address, elements, device, kind
        self._dtype = owner.dtype if _is_tensor(owner) else None

    def let_go(self):
        """Its memory may be freed: nothing is at the address that the library knows."""
        self.owner = (0, self.elements)

    def address_in(self, tensor):
        """The address of a tensor of torch that can take its place; 0 where it is not such a one, or a closer look is due.
        Within a microsecond: where backward makes new gradients it is asked once for each."""
        torch = sys.modules.get("torch")
        if (torch is not None and type(tensor) is torch.Tensor and tensor.dtype is self._dtype
                and tensor.numel() == self.elements and tensor.is_contiguous()
                and tensor.get_device() == (-1 if self.device is None else self.device)):
            return tensor.data_ptr()
        return 0


def region_of(what, value, devices=("cpu",)):
    """(address, elements, type name, bytes an element) of a contiguous, writable array or tensor."""
    if _is_tensor(value):
        kind = str(value.dtype).removeprefix("torch.")
        if value.device.type not in devices:
            raise InvalidError(f"{what}: the tensor is on {value.device}; copy it to the CPU first")
        contiguous, writable = value.is_contiguous(), True
        address, elements, width = value.data_ptr(), value.numel(), value.element_size()
    elif isinstance(value, np.ndarray):
        kind, width = str(value.dtype), value.itemsize
        contiguous, writable = value.flags.c_contiguous, value.flags.writeable
        address, elements = value.ctypes.data, value.size
    else:
        raise InvalidError(f"{what}: expected a NumPy array or a torch tensor, not "
                           f"{type(value).__name__}")
    if not contiguous:
        raise InvalidError(f"{what}: the array is not contiguous; pass numpy.ascontiguousarray(…) or "
                           "tensor.contiguous()")
    if not writable:
        raise InvalidError(f"{what}: the array is read-only; the result is written into it")
    if elements and not address:
        raise InvalidError(f"{what}: its memory was freed")
    if kind not in ELEMENT_TYPES:
        raise InvalidError(f"{what}: element type {kind} is unknown; known are "
                           f"{', '.join(ELEMENT_TYPES)}")
    return address, elements, kind, width


def gradient_of(name, gradient, device=None):
    """`device`: the CUDA device of a pointer; a tensor has its own."""
    if isinstance(gradient, tuple) and len(gradient) == 2:
        address, elements = (int(part) for part in gradient)
        if not address:
            raise InvalidError(f'the gradient of "{name}" is a null pointer')
        return Gradient(gradient, address, elements, device)
    address, elements, kind, _ = region_of(f'the gradient of "{name}"', gradient, ("cpu", "cuda"))
    if kind not in GRADIENTS:
        raise InvalidError(f'the gradient of "{name}" is {kind}; gradients are {" or ".join(GRADIENTS)}')
    own = gradient.device.index if _is_tensor(gradient) and gradient.device.type == "cuda" else None
    if device not in (None, own):
        raise InvalidError(f'the gradient of "{name}" does not lie on the CUDA device {device}')
    return Gradient(gradient, address, elements, own, kind)


def stream_of(owner, device):
    """The stream of a gradient on `device` of which the caller says none: the one that is current; the
    default stream of what is not a tensor."""
    return sys.modules["torch"].cuda.current_stream(device).cuda_stream if _is_tensor(owner) else 0


def address_of(owner):
    """The present address of a registered array or tensor; 0: its memory was freed."""
    if _is_tensor(owner):
        return owner.data_ptr()
    if isinstance(owner, np.ndarray):
        return owner.__array_interface__["data"][0] if owner.size else 0
    return owner[0]


# An element type of NumPy or PyTorch -> what safetensors calls it.
_DTYPES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "float16": "F16",
           "bfloat16": "BF16", "uint32": "U32", "int32": "I32", "float32": "F32", "uint64": "U64", "int64": "I64",
           "float64": "F64", "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
           "float8_e8m0fnu": "F8_E8M0"}
DTYPES = {dtype: name for name, dtype in _DTYPES.items()}  # the other way round, as PyTorch names them


def type_of(value):
    """(dtype as safetensors names it, shape) of an array or tensor; (None, ()) of what is saved as bytes."""
    if not _is_tensor(value) and not isinstance(value, np.ndarray):
        return None, ()
    dtype = _DTYPES.get(str(value.dtype).removeprefix("torch."))
    return dtype, tuple(value.shape) if dtype else ()


def bytes_of(name, value):
    """(address, bytes, object to keep alive) of a checkpoint item: bytes-like, array or CPU tensor."""
    if _is_tensor(value):
        value = value.detach().resolve_conj().resolve_neg().contiguous()
        if value.device.type != "cpu":
            value = value.cpu()
        return value.data_ptr(), value.numel() * value.element_size(), value
    if isinstance(value, np.ndarray):
        value = np.ascontiguousarray(value)
        return value.ctypes.data, value.nbytes, value
    try:
        view = np.frombuffer(value, np.uint8) if len(value) else np.empty(0, np.uint8)
    except TypeError:
        raise InvalidError(f'the checkpoint item "{name}" is a {type(value).__name__}; pass bytes, an '
                           "array or a tensor") from None
    return view.ctypes.data, view.nbytes, (value, view)
