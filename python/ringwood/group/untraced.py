"""What torch.compile leaves alone. In DistributedDataParallel's forward it is at work while PyTorch's C++ calls the process
group, and would compile the group's methods, which it cannot. torch._dynamo, which has words for this, takes a second to
import, so this asks what lies below it.
"""

import types

from torch._C._dynamo import eval_frame


def untraced(cls):
    """The class; its methods, and what they call, run as they are."""
    if hasattr(eval_frame, "set_code_exec_strategy"):  # older versions have other words for it
        skip = eval_frame._FrameAction.SKIP
        for member in vars(cls).values():
            if isinstance(member, types.FunctionType):
                eval_frame.set_code_exec_strategy(member.__code__, eval_frame._FrameExecStrategy(skip, skip))
    return cls
