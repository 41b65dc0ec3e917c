"""Two ranks of a process group, for what one sends to the other."""

from ..interface.aside import aside
from .communicator import Communicator

LINES = 256  # from one rank to another. A script may number its messages by tags without end


class Pairs:
    """Of a process group: communicators for each direction, made by the first call of one on either rank. Tags that are
    equal modulo LINES share one: their messages are received in the order in which they are sent."""

    def __init__(self, joined, ranks, store):
        """`joined`: as rendezvous.join gives it; `ranks`: the group's, numbered as in the session."""
        self._joined, self._ranks, self._store = joined, ranks, store
        self._made = {}  # (from, to, line) -> Communicator

    def communicator(self, source, target, tag):
        """Whoever of the two comes first numbers it."""
        key = (source, target, tag % LINES)
        if key not in self._made:
            name = self._joined.key("pair/{}/{}/{}".format(*key))
            if self._store.add(name + "/comers", 1) == 1:
                self._store.set(name, str(self._joined.number()))
            self._made[key] = Communicator(self._joined.session, [self._ranks[source], self._ranks[target]],
                                           int(aside(self._store.get, name)))
        return self._made[key]
