"""What torch.compile leaves alone, as it cannot compile it: a process group, which PyTorch's C++ calls while
torch.compile is at work in DistributedDataParallel's forward, and the hooks of gradients, which compiled autograd calls.
torch._dynamo, which has words for this, takes a second to import, so this asks what lies below it.
"""

import types

from torch._C._dynamo import eval_frame


def untraced(what):
    """The function, or the class with its methods; they, and what they call, run as they are."""
    if hasattr(eval_frame, "set_code_exec_strategy"):  # older versions have other words for it
        skip = eval_frame._FrameAction.SKIP
        for each in [what] if isinstance(what, types.FunctionType) else vars(what).values():
            if isinstance(each, types.FunctionType):
                eval_frame.set_code_exec_strategy(each.__code__, eval_frame._FrameExecStrategy(skip, skip))
    return what
