"""The backend "ringwood" of torch.distributed: dense collectives of tensors in host memory; of tensors on a device
through host memory.

    import ringwood.torch                                    # registers it
    torch.distributed.init_process_group("ringwood")

A process has one session, which all of its process groups share: each is a communicator of it. Names and arguments
of the methods are those that torch.distributed calls, older names included. What is refused says so by name.
"""

from collections import deque

import torch
from torch._C._distributed_c10d import ReduceOp

from .communicator import (ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, REDUCE, REDUCE_SCATTER, Communicator)
from .errors import InvalidError, RefusedError
from .library import ELEMENT_TYPES, OPERATIONS
from .entry.rendezvous import join
from .work import Watcher, Work

_BYTE = ELEMENT_TYPES["uint8"]
_KINDS = {getattr(torch, name): number for name, number in ELEMENT_TYPES.items()}
_OPERATIONS = ((ReduceOp.SUM, "sum"), (ReduceOp.AVG, "average"), (ReduceOp.MAX, "max"), (ReduceOp.MIN, "min"),
               (ReduceOp.PRODUCT, "product"))
_OF_BOOL = {"sum": "max", "max": "max", "product": "min", "min": "min"}  # or, and
_REFUSED = {"recv_anysource": "receiving from any rank: name the source",
            "allreduce_sparse": "sparse tensors: make them dense, or sparse=False in nn.Embedding",
            "split_group": "splitting a group: make one with new_group",
            "monitored_barrier": "monitored_barrier: barrier has a timeout, and names the ranks that are missing"}


def _reduction(what, op, dtype):
    """(element type, operation) as the library numbers them."""
    name = next((name for known, name in _OPERATIONS if op == known), None)
    if dtype is torch.bool:
        if name not in _OF_BOOL:
            raise InvalidError(f"{what}: {_name_of(op)} of bool; there are {', '.join(_OF_BOOL)}")
        return _BYTE, OPERATIONS[_OF_BOOL[name]]
    if name is None:
        raise InvalidError(f"{what}: {_name_of(op)} is not done by the backend ringwood; it knows "
                           f"{', '.join(name for _, name in _OPERATIONS)}")
    if dtype not in _KINDS:
        raise InvalidError(f"{what}: {dtype} is not reduced by the backend ringwood; it knows "
                           f"{', '.join(ELEMENT_TYPES)}: convert the tensor first")
    return _KINDS[dtype], OPERATIONS[name]


def _name_of(op):
    return str(getattr(op, "op", op)).rsplit(".", 1)[-1]


def _in_memory(what, tensor):
    """The tensor, or a copy of it, contiguous in host memory."""
    if tensor.layout is not torch.strided:
        raise InvalidError(f"{what}: a {tensor.layout} tensor; the backend ringwood exchanges dense ones")
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        return tensor
    return tensor.detach().cpu().contiguous()


def _bytes(tensor):
    return tensor.numel() * tensor.element_size()


def _one(tensors):
    """A tensor: the call gives it alone or in a list of one."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise InvalidError(f"{len(tensors)} tensors in one call: the backend ringwood takes one, or the coalesced form")
    return tensors[0]


def _together(tensors):
    """Their bytes, one after the other."""
    return torch.cat([tensor.detach().reshape(-1).view(torch.uint8) for tensor in tensors]) if tensors else _NOTHING


_NOTHING = torch.empty(0, dtype=torch.uint8)


class ProcessGroup(torch.distributed.ProcessGroup):
    """Made by `create`. Any thread."""

    def __init__(self, joined, ranks, rank, timeout, store, number):
        super().__init__(rank, len(ranks))
        self._joined, self._ranks, self._rank, self._store = joined, ranks, rank, store
        self._seconds = timeout.total_seconds()
        self._communicator = Communicator(joined.session, ranks, number)
        self._pairs = {}     # (from, to, tag) -> Communicator
        self._open = deque()  # works: what they exchange stays in place although nobody waits for them
        self._watcher = Watcher(f"rw-group-{number}")
        self._name = self._description = ""
        self._closed = False

    # ---- what torch asks of a group ----

    def getBackendName(self):
        return "ringwood"

    def rank(self):
        return self._rank

    def size(self):
        return len(self._ranks)

    getRank, getSize = rank, size

    @property
    def group_name(self):
        return self._name

    @property
    def group_desc(self):
        return self._description

    def getGroupName(self):
        return self._name

    def getGroupDesc(self):
        return self._description

    def _set_group_name(self, name):
        self._name = name

    def _set_group_desc(self, description):
        self._description = description

    setGroupName, setGroupDesc = _set_group_name, _set_group_desc

    def _set_default_timeout(self, timeout):
        self._seconds = timeout.total_seconds()

    def shutdown(self):
        """From destroy_process_group. With the last group the session that was opened for them is closed."""
        if not self._closed:
            self._closed = True
            self._watcher.stop()
            self._joined.leave()

    def abort(self):
        self.shutdown()

    # ---- collectives ----

    def allreduce(self, tensors, opts=None):
        tensor = _one(tensors)
        host = _in_memory("allreduce", tensor)
        kind, op = _reduction("allreduce", opts.reduceOp if opts is not None else ReduceOp.SUM, tensor.dtype)
        pending = self._start(ALL_REDUCE, kind, host, host, op=op)
        return self._work([pending], [tensor], opts, (host,), self._back([tensor], [host]))

    def allreduce_coalesced(self, tensors, opts=None):
        hosts = [_in_memory("allreduce", tensor) for tensor in tensors]
        op = opts.reduceOp if opts is not None else ReduceOp.SUM
        kinds = [_reduction("allreduce", op, tensor.dtype) for tensor in tensors]
        pending = [self._start(ALL_REDUCE, kind, host, host, op=op) for host, (kind, op) in zip(hosts, kinds)]
        return self._work(pending, list(tensors), opts, hosts, self._back(tensors, hosts))

    def reduce(self, tensors, opts):
        tensor = _one(tensors)
        host = _in_memory("reduce", tensor)
        kind, op = _reduction("reduce", opts.reduceOp, tensor.dtype)
        root = opts.rootRank == self._rank
        pending = self._start(REDUCE, kind, host, host if root else _NOTHING, op=op, root=opts.rootRank)
        return self._work([pending], [tensor], opts, (host,), self._back([tensor], [host]) if root else None)

    def broadcast(self, tensors, opts):
        root = opts if isinstance(opts, int) else opts.rootRank
        tensor = _one(tensors)
        host = _in_memory("broadcast", tensor)
        pending = self._start(BROADCAST, _BYTE, None, host, root=root)
        return self._work([pending], [tensor], opts, (host,), self._back([tensor], [host]))

    def all_gather_single(self, output, input, opts=None):
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        ins = [_in_memory("all_gather", tensor) for tensor in inputs]
        outs = [_in_memory("all_gather", tensor) for tensor in outputs]
        for given, gathered in zip(ins, outs):
            self._fits("all_gather", _bytes(given) * self.size(), _bytes(gathered))
        pending = [self._start(ALL_GATHER, _BYTE, given, gathered) for given, gathered in zip(ins, outs)]
        return self._work(pending, list(outputs), opts, (ins, outs), self._back(outputs, outs))

    def allgather(self, outputs, inputs, opts=None):
        """The outputs may differ in length, as long as each is that of its rank's input."""
        given = _in_memory("all_gather", _one(inputs))
        parts = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        shares = [_bytes(part) for part in parts]
        self._one_each("all_gather", parts)
        self._fits("all_gather", _bytes(given), shares[self._rank])
        gathered = torch.empty(sum(shares), dtype=torch.uint8)
        pending = self._start(ALL_GATHER, _BYTE, given, gathered, shares=shares)
        return self._work([pending], list(parts), opts, (given, gathered), lambda: _hand_out(gathered, shares, parts))

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        parts = [[each[i] for each in output_lists] for i in range(len(inputs))]
        return self._all([self.allgather([part], [tensor], opts) for part, tensor in zip(parts, inputs)], opts)

    def reduce_scatter_single(self, output, input, opts=None):
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        ins = [_in_memory("reduce_scatter", tensor) for tensor in inputs]
        outs = [_in_memory("reduce_scatter", tensor) for tensor in outputs]
        asked = opts.reduceOp if opts is not None else ReduceOp.SUM
        pending = []
        for given, share in zip(ins, outs):
            self._fits("reduce_scatter", _bytes(given), _bytes(share) * self.size())
            kind, op = _reduction("reduce_scatter", asked, given.dtype)
            pending.append(self._start(REDUCE_SCATTER, kind, given, share, op=op))
        return self._work(pending, list(outputs), opts, (ins, outs), self._back(outputs, outs))

    def reduce_scatter(self, outputs, inputs, opts=None):
        """The inputs may differ in length, alike on all ranks."""
        output = _one(outputs)
        parts = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
        self._one_each("reduce_scatter", parts)
        given = torch.cat([_in_memory("reduce_scatter", part).reshape(-1) for part in parts])
        share = _in_memory("reduce_scatter", output)
        kind, op = _reduction("reduce_scatter", opts.reduceOp if opts is not None else ReduceOp.SUM, given.dtype)
        self._fits("reduce_scatter", parts[self._rank].numel(), share.numel())
        pending = self._start(REDUCE_SCATTER, kind, given, share, op=op, shares=[part.numel() for part in parts])
        return self._work([pending], [output], opts, (given, share), self._back([output], [share]))

    def gather(self, outputs, inputs, opts):
        given = _in_memory("gather", _one(inputs))
        sends, receives, parts = self._zeros(), self._zeros(), []
        sends[opts.rootRank] = _bytes(given)
        if opts.rootRank == self._rank:
            parts = outputs[0]
            self._one_each("gather", parts)
            receives = [_bytes(part) for part in parts]
        return self._exchange([given], sends, parts, receives, opts, parts)

    def scatter(self, outputs, inputs, opts):
        output = _one(outputs)
        sends, receives, parts = self._zeros(), self._zeros(), []
        receives[opts.rootRank] = _bytes(output)
        if opts.rootRank == self._rank:
            parts = [_in_memory("scatter", part) for part in inputs[0]]
            self._one_each("scatter", parts)
            sends = [_bytes(part) for part in parts]
        return self._exchange(parts, sends, [output], receives, opts, [output])

    def alltoall(self, outputs, inputs, opts=None):
        self._one_each("all_to_all", inputs)
        self._one_each("all_to_all", outputs)
        parts = [_in_memory("all_to_all", part) for part in inputs]
        return self._exchange(parts, [_bytes(part) for part in parts], outputs, [_bytes(part) for part in outputs],
                              opts, list(outputs))

    def all_to_all_single(self, output, input, output_splits, input_splits, opts=None):
        """Splits count along the first dimension; none: evenly."""
        given, taken = _in_memory("all_to_all", input), _in_memory("all_to_all", output)
        sends, receives = self._splits(given, input_splits), self._splits(taken, output_splits)
        pending = self._start(ALL_TO_ALL, _BYTE, given, taken, shares=sends, receives=receives)
        return self._work([pending], [output], opts, (given, taken), self._back([output], [taken]))

    def barrier(self, opts=None):
        """Each rank hears from each, so that a deadline's error names those that are missing, and no other."""
        nobody = self._zeros()
        pending = self._start(ALL_TO_ALL, _BYTE, _NOTHING, _NOTHING, shares=nobody, receives=nobody)
        return self._work([pending], [], opts, ())

    # ---- from one rank to another ----

    def send(self, tensors, to, tag=0):
        """Ends when the receiver has begun to receive."""
        return self._pass_on(_one(tensors), self._rank, to, tag)

    def recv(self, tensors, source, tag=0):
        return self._pass_on(_one(tensors), source, self._rank, tag)

    def _pass_on(self, tensor, source, target, tag):
        receives = target == self._rank
        if source == target:
            raise InvalidError(f"rank {source} of the group sends to itself")
        host = _in_memory("recv" if receives else "send", tensor)
        here = int(receives)  # the sender is rank 0 of the pair, the receiver rank 1
        counts, none = [0, 0], [0, 0]
        counts[1 - here] = _bytes(host)
        pair = self._pair(source, target, tag)
        ways = (_NOTHING, host, none, counts) if receives else (host, _NOTHING, counts, none)
        pending = self._start(ALL_TO_ALL, _BYTE, ways[0], ways[1], shares=ways[2], receives=ways[3], through=pair)
        return self._work([pending], [tensor], None, (host,), self._back([tensor], [host]) if receives else None)

    def _pair(self, source, target, tag):
        """Whoever of the two comes first numbers it."""
        key = (source, target, tag)
        if key not in self._pairs:
            name = self._joined.key(f"pair/{source}/{target}/{tag}")
            if self._store.add(name + "/comers", 1) == 1:
                self._store.set(name, str(self._joined.number()))
            self._pairs[key] = Communicator(self._joined.session, [self._ranks[source], self._ranks[target]],
                                            int(self._store.get(name)))
        return self._pairs[key]

    # ---- parts of the above ----

    def _start(self, collective, kind, source, target, op=0, root=0, shares=None, receives=None, through=None):
        if self._closed:
            raise RefusedError("the process group was destroyed")
        size = 1 if kind == _BYTE else (target if source is None else source).element_size()
        inputs = (source.data_ptr(), _bytes(source) // size) if source is not None else (None, 0)
        return (through or self._communicator).start(collective, kind, *inputs, target.data_ptr(),
                                                     _bytes(target) // size, op, root, shares, receives)

    def _work(self, pending, outputs, opts, used, after=None):
        given = getattr(opts, "timeout", None)
        seconds = given.total_seconds() if given is not None else 0
        work = Work(self._watcher, pending, outputs, seconds if seconds > 0 else self._seconds, after)
        work.used = used
        opened = self._open
        while opened and opened[0].is_completed():
            opened.popleft()
        opened.append(work)
        return work

    def _all(self, works, opts):
        """One work for several."""
        def finish():
            for work in works:
                work.wait()

        return self._work([pending for work in works for pending in work._pending],
                          [output for work in works for output in work._outputs], opts, works, finish)

    def _exchange(self, ins, sends, outs, receives, opts, outputs):
        """An all-to-all of tensors in bytes."""
        given, taken = _together(ins), torch.empty(sum(receives), dtype=torch.uint8)
        pending = self._start(ALL_TO_ALL, _BYTE, given, taken, shares=sends, receives=receives)
        sizes = [sum(receives)] if len(outs) == 1 else receives
        return self._work([pending], outputs, opts, (given, taken), lambda: _hand_out(taken, sizes, outs))

    def _back(self, tensors, hosts):
        """What copies results from host memory to where they belong; None where they lie there."""
        pairs = [(tensor, host) for tensor, host in zip(tensors, hosts) if tensor is not host]
        return (lambda: [tensor.detach().copy_(host) for tensor, host in pairs]) if pairs else None

    def _zeros(self):
        return [0] * self.size()

    def _splits(self, tensor, splits):
        if not splits:
            self._fits("all_to_all", tensor.shape[0] % self.size() if tensor.dim() else 1, 0)
            return [_bytes(tensor) // self.size()] * self.size()
        self._one_each("all_to_all", splits)
        row = _bytes(tensor) // max(1, tensor.shape[0])
        return [row * split for split in splits]

    def _one_each(self, what, parts):
        if len(parts) != self.size():
            raise InvalidError(f"{what}: {len(parts)} tensors or splits in a group of {self.size()} ranks")

    def _fits(self, what, is_, should_be):
        if is_ != should_be:
            raise InvalidError(f"{what}: the tensors do not fit together in a group of {self.size()} ranks: {is_} bytes "
                               f"or elements where {should_be} are needed")

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def _refuse(what, words):
    def refused(self, *_, **__):
        raise RefusedError(f"{what} is not in the backend ringwood: {words}")

    return refused


for _name, _words in _REFUSED.items():
    setattr(ProcessGroup, _name, _refuse(_name, _words))


@torch.no_grad()
def _hand_out(together, sizes, parts):
    for part, content in zip(parts, together.split(sizes)):
        part.copy_(content.clone().view(part.dtype).view(part.shape) if _bytes(part) else part)


def create(options, _):
    """Called by torch.distributed for every group, on all of its members."""
    size, rank, store = options.group_size, options.group_rank, options.store
    joined = join(store, rank, size, options.timeout, list(options.global_ranks_in_group))
    ranks = list(options.global_ranks_in_group) or list(range(size))
    key = joined.key("number")
    if rank == 0:
        store.set(key, str(joined.number()))
    group = ProcessGroup(joined, ranks, rank, options.timeout, store, int(store.get(key)))
    if joined.groups == 1:
        group.barrier().wait()  # the start is over: what comes now may take its time
    return group


def register():
    """The backend, by name. Once."""
    if "RINGWOOD" not in torch.distributed.Backend._plugins:
        torch.distributed.Backend.register_backend("ringwood", create, extended_api=True, devices=["cpu", "cuda"])
