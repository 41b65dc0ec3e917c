"""Handles of Horovod's calls that were started: each is synchronized once."""

from ..errors import InvalidError

_started = {}  # number -> (works, what synchronize makes of their result)
_counts = {"handles": 0}


def handle_of(works, outcome):
    """Of a call that was started: `works` are waited for, then `outcome` makes its result."""
    _counts["handles"] += 1
    _started[_counts["handles"]] = works, outcome
    return _counts["handles"]


def poll(handle):
    """Whether synchronize would not wait."""
    if handle not in _started:
        raise InvalidError(f"there is no handle {handle}: each is synchronized once")
    return all(work.is_completed() for work in _started[handle][0])


def synchronize(handle):
    """Waits for a call that was started, and returns its result."""
    if handle not in _started:
        raise InvalidError(f"there is no handle {handle}: each is synchronized once")
    works, outcome = _started.pop(handle)
    for work in works:
        work.wait()
    return outcome()


def grouped(start):
    """The call that takes a list of tensors and gives one handle, of one that takes a tensor."""
    def started(tensors, *arguments, **named):
        handles = [_started.pop(start(tensor, *arguments, **named)) for tensor in tensors]
        together = [work for works, _ in handles for work in works]
        return handle_of(together, lambda: [outcome() for _, outcome in handles])

    return started


def of_each(call):
    """The call that takes a list of tensors, of one that takes a tensor and has a gradient."""
    return lambda tensors, *arguments, **named: [call(tensor, *arguments, **named) for tensor in tensors]


def forget_handles():
    """The session is about to close."""
    _started.clear()
