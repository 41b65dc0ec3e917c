"""Calls what has to be done before a model's forward pass."""

import contextlib


class BeforeForward:
    """A hook that calls `action(model)`. It does not go with the model where that is copied or pickled: an average of
    the weights, or a file with the whole model, is no part of the training."""

    def __init__(self, action):
        self._action = action

    def __call__(self, model, inputs):
        self._action(model)

    def __reduce__(self):
        """In its place a hook that does nothing, of Python's own: the file is read where Ringwood is not installed."""
        return getattr, (contextlib.nullcontext(), "__exit__")


def before_forward(model, action):
    """Returns a handle, whose remove() ends it."""
    return model.register_forward_pre_hook(BeforeForward(action))
