"""The gradients that a session has registered: the library's number of each, and where its memory is.

The library reads and writes at the place that it was told last. Memory that was freed or moved since is found here,
before the library touches it.
"""

from ..errors import ExistsError, InvalidError, NotFoundError
from ..memory import address_of, gradient_of


class RegisteredGradients:
    """Of one session, by name. `ids`: what ringwood_register gave; `places`: the memory.Gradient of each."""

    def __init__(self):
        self.ids = {}
        self.places = {}

    def refuse_registered(self, name):
        if name in self.ids:
            raise ExistsError(f'the tensor "{name}" is registered twice; every name is registered once')

    def add(self, name, identity, gradient):
        self.ids[name] = identity
        self.places[name] = gradient

    def id_of(self, name):
        try:
            return self.ids[name]
        except KeyError:
            raise NotFoundError(f'no tensor "{name}" is registered (there are: '
                                f'{", ".join(self.ids) or "none"})') from None

    def still_there(self, name):
        """The id of a gradient whose memory is where it was; else an error."""
        identity = self.id_of(name)
        given = self.places[name]
        if address_of(given.owner) != given.address:
            raise InvalidError(f'the gradient of "{name}" was freed or moved since it was registered: keep '
                               "its memory, or call rebind with the new one")
        return identity

    def all_still_there(self):
        for name in self.ids:
            self.still_there(name)

    def new_place(self, name, gradient):
        """The memory.Gradient of a registered one whose memory is another now: as long, and on the same device."""
        before = self.places[name]
        given = gradient_of(name, gradient, before.device)
        if given.elements != before.elements:
            raise InvalidError(f'the gradient of "{name}" has {given.elements} elements, registered were '
                               f"{before.elements}")
        if given.kind != before.kind:
            raise InvalidError(f'the gradient of "{name}" is {given.kind}, registered was {before.kind}')
        if given.device != before.device:
            raise InvalidError(f'the gradient of "{name}" lies on the CUDA device {given.device}, the '
                               "registered one in host memory")
        return given
