"""How Horovod's calls send floats."""


class _NoCompression:
    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, dtype):
        return tensor


class _HalfCompression:
    @staticmethod
    def compress(tensor):
        return (tensor.half(), tensor.dtype) if tensor.is_floating_point() else (tensor, None)

    @staticmethod
    def decompress(tensor, dtype):
        return tensor if dtype is None else tensor.to(dtype)


class Compression:
    """How an all-reduce sends floats."""
    none = _NoCompression
    fp16 = _HalfCompression
