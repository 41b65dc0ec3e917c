"""The backend "ringwood" of torch.distributed: dense collectives of tensors in host memory; of tensors on a device
through host memory.

    import ringwood.torch                                    # registers it
    torch.distributed.init_process_group("ringwood")

A process has one session, which all of its process groups share: each is a communicator of it. Names and arguments
of the methods are those that torch.distributed calls, older names included. What is refused says so by name.
"""

import torch
from torch._C._distributed_c10d import ReduceOp

from .entry.rendezvous import join
from .errors import InvalidError, RefusedError
from .group.communicator import (ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, REDUCE, REDUCE_SCATTER, Communicator)
from .group.pairs import LINES, Pairs
from .group.reduction import WIDTHS, dtype_of, kind_of, reduction_of
from .group.tensors import BYTE, NOTHING, hand_out, in_memory, one_of, size_of, together
from .group.under_way import UnderWay
from .group.watcher import Watcher
from .group.work import Work, hand_over_futures
from .interface.aside import aside
from .untraced import untraced

OLDEST_TORCH = (2, 7)
_REFUSED = {"recv_anysource": "receiving from any rank: name the source",
            "allreduce_sparse": "sparse tensors: make them dense, or sparse=False in nn.Embedding",
            "split_group": "splitting a group: make one with new_group",
            "monitored_barrier": "monitored_barrier: barrier has a timeout, and names the ranks that are missing"}


@untraced
class ProcessGroup(torch.distributed.ProcessGroup):
    """Made by `create`. Any thread."""

    def __init__(self, joined, ranks, rank, timeout, store, number):
        super().__init__(rank, len(ranks))
        self._joined, self._ranks, self._rank = joined, ranks, rank
        self._seconds = timeout.total_seconds()
        self._communicator = Communicator(joined.session, ranks, number)
        self._pairs = Pairs(joined, ranks, store)
        self._under_way = UnderWay()
        self._watcher = Watcher(f"rw-group-{number}")
        self._name = self._description = ""
        self._closed = False
        self._coalesced = None  # the works between _start_coalescing and _end_coalescing

    # ---- what torch asks of a group ----

    def getBackendName(self):
        return "ringwood"

    def rank(self):
        return self._rank

    def size(self):
        return len(self._ranks)

    getRank, getSize = rank, size

    @property
    def ranks(self):
        """The group's, numbered as in the session."""
        return self._ranks

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

    @property
    def _device_types(self):
        """By which torch.distributed.checkpoint chooses where tensors lie that it exchanges."""
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, device):
        """A group that is made in Python is its own backend, of all devices."""
        return self

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
        tensor = one_of(tensors)
        host = in_memory("allreduce", tensor)
        how = reduction_of("allreduce", opts.reduceOp if opts is not None else ReduceOp.SUM, tensor.dtype)
        pending = self._start(ALL_REDUCE, how.kind, host, host, op=how.op, about=how.divided)
        return self._work([pending], [tensor], opts, (host,), self._back([tensor], [host], how))

    def allreduce_coalesced(self, tensors, opts=None):
        hosts = [in_memory("allreduce", tensor) for tensor in tensors]
        op = opts.reduceOp if opts is not None else ReduceOp.SUM
        how = [reduction_of("allreduce", op, tensor.dtype) for tensor in tensors]
        pending = [self._start(ALL_REDUCE, each.kind, host, host, op=each.op, about=each.divided)
                   for host, each in zip(hosts, how)]
        return self._work(pending, list(tensors), opts, hosts, self._back(tensors, hosts, *how))

    def reduce(self, tensors, opts):
        tensor = one_of(tensors)
        host = in_memory("reduce", tensor)
        how = reduction_of("reduce", opts.reduceOp, tensor.dtype)
        root = opts.rootRank == self._rank
        pending = self._start(REDUCE, how.kind, host, host if root else NOTHING, op=how.op, root=opts.rootRank,
                              about=how.divided)
        return self._work([pending], [tensor], opts, (host,), self._back([tensor], [host], how) if root else None)

    def broadcast(self, tensors, opts):
        root = opts if isinstance(opts, int) else opts.rootRank
        tensor = one_of(tensors)
        host = in_memory("broadcast", tensor)
        pending = self._start(BROADCAST, kind_of("broadcast", tensor), None, host, root=root)
        return self._work([pending], [tensor], opts, (host,), self._back([tensor], [host]))

    def all_gather_single(self, output, input, opts=None):
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        ins = [in_memory("all_gather", tensor) for tensor in inputs]
        outs = [in_memory("all_gather", tensor) for tensor in outputs]
        for given, gathered in zip(ins, outs):
            self._fits("all_gather", size_of(given) * self.size(), size_of(gathered))
        pending = [self._start(ALL_GATHER, kind_of("all_gather", given, gathered), given, gathered)
                   for given, gathered in zip(ins, outs)]
        return self._work(pending, list(outputs), opts, (ins, outs), self._back(outputs, outs))

    def allgather(self, outputs, inputs, opts=None):
        """The outputs may differ in length, as long as each is that of its rank's input."""
        given = in_memory("all_gather", one_of(inputs))
        parts = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        shares = [size_of(part) for part in parts]
        self._one_each("all_gather", parts)
        self._fits("all_gather", size_of(given), shares[self._rank])
        gathered = torch.empty(sum(shares), dtype=torch.uint8, device="cpu")
        pending = self._start(ALL_GATHER, kind_of("all_gather", given, *parts), given, gathered, shares=shares)
        return self._work([pending], list(parts), opts, (given, gathered), lambda: hand_out(gathered, shares, parts))

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        parts = [[each[i] for each in output_lists] for i in range(len(inputs))]
        return self._all([self.allgather([part], [tensor], opts) for part, tensor in zip(parts, inputs)], opts)

    def reduce_scatter_single(self, output, input, opts=None):
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        ins = [in_memory("reduce_scatter", tensor) for tensor in inputs]
        outs = [in_memory("reduce_scatter", tensor) for tensor in outputs]
        asked = opts.reduceOp if opts is not None else ReduceOp.SUM
        pending, how = [], []
        for given, share in zip(ins, outs):
            self._fits("reduce_scatter", size_of(given), size_of(share) * self.size())
            how.append(reduction_of("reduce_scatter", asked, dtype_of("reduce_scatter", given, share)))
            pending.append(self._start(REDUCE_SCATTER, how[-1].kind, given, share, op=how[-1].op, about=how[-1].divided))
        return self._work(pending, list(outputs), opts, (ins, outs), self._back(outputs, outs, *how))

    def reduce_scatter(self, outputs, inputs, opts=None):
        """The inputs may differ in length, alike on all ranks."""
        output = one_of(outputs)
        parts = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
        self._one_each("reduce_scatter", parts)
        given = torch.cat([in_memory("reduce_scatter", part).reshape(-1) for part in parts])
        share = in_memory("reduce_scatter", output)
        how = reduction_of("reduce_scatter", opts.reduceOp if opts is not None else ReduceOp.SUM,
                           dtype_of("reduce_scatter", output, *parts))
        self._fits("reduce_scatter", parts[self._rank].numel(), share.numel())
        pending = self._start(REDUCE_SCATTER, how.kind, given, share, op=how.op, about=how.divided,
                              shares=[size_of(part) for part in parts])
        return self._work([pending], [output], opts, (given, share), self._back([output], [share], how))

    def gather(self, outputs, inputs, opts):
        given = in_memory("gather", one_of(inputs))
        self._known("gather", opts.rootRank)
        sends, receives, parts = self._zeros(), self._zeros(), []
        sends[opts.rootRank] = size_of(given)
        if opts.rootRank == self._rank:
            parts = outputs[0]
            self._one_each("gather", parts)
            receives = [size_of(part) for part in parts]
        return self._exchange("gather", [given], sends, parts, receives, opts, parts)

    def scatter(self, outputs, inputs, opts):
        output = one_of(outputs)
        self._known("scatter", opts.rootRank)
        sends, receives, parts = self._zeros(), self._zeros(), []
        receives[opts.rootRank] = size_of(output)
        if opts.rootRank == self._rank:
            parts = [in_memory("scatter", part) for part in inputs[0]]
            self._one_each("scatter", parts)
            sends = [size_of(part) for part in parts]
        return self._exchange("scatter", parts, sends, [output], receives, opts, [output])

    def alltoall(self, outputs, inputs, opts=None):
        self._one_each("all_to_all", inputs)
        self._one_each("all_to_all", outputs)
        parts = [in_memory("all_to_all", part) for part in inputs]
        return self._exchange("all_to_all", parts, [size_of(part) for part in parts], outputs,
                              [size_of(part) for part in outputs], opts, list(outputs))

    def all_to_all_single(self, output, input, output_splits, input_splits, opts=None):
        """Splits count along the first dimension; none: evenly."""
        given, taken = in_memory("all_to_all", input), in_memory("all_to_all", output)
        sends, receives = self._splits(given, input_splits), self._splits(taken, output_splits)
        pending = self._start(ALL_TO_ALL, kind_of("all_to_all", given, taken), given, taken, shares=sends,
                              receives=receives)
        return self._work([pending], [output], opts, (given, taken), self._back([output], [taken]))

    def barrier(self, opts=None):
        """Each rank hears from each, so that a deadline's error names those that are missing, and no other."""
        nobody = self._zeros()
        pending = self._start(ALL_TO_ALL, BYTE, NOTHING, NOTHING, shares=nobody, receives=nobody)
        return self._work([pending], [], opts, ())

    def _start_coalescing(self, device):
        """Of torch's _coalescing_manager(device=…): what is called until `_end_coalescing` starts at once, as always, and
        is waited for together."""
        self._coalesced = []

    def _end_coalescing(self, device):
        works, self._coalesced = self._coalesced, None
        return self._all(works, None)

    # ---- from one rank to another ----

    def send(self, tensors, to, tag=0):
        """Ends when the receiver has begun to receive."""
        return self._pass_on(one_of(tensors), self._rank, to, tag)

    def recv(self, tensors, source, tag=0):
        return self._pass_on(one_of(tensors), source, self._rank, tag)

    def _pass_on(self, tensor, source, target, tag):
        receives = target == self._rank
        what = "recv" if receives else "send"
        if source == target:
            raise InvalidError(f"rank {source} of the group sends to itself")
        self._known(what, source if receives else target)
        host = in_memory(what, tensor)
        here = int(receives)  # the sender is rank 0 of the pair, the receiver rank 1
        counts, none = [0, 0], [0, 0]
        counts[1 - here] = size_of(host)
        pair = self._pairs.communicator(source, target, tag)
        ways = (NOTHING, host, none, counts) if receives else (host, NOTHING, counts, none)
        pending = self._start(ALL_TO_ALL, kind_of("send", tensor), ways[0], ways[1], shares=ways[2], receives=ways[3],
                              through=pair, about=tag)
        work = self._work([pending], [tensor], None, (host,), self._back([tensor], [host]) if receives else None, pair)
        work.what = (f"{what} with tag {tag}; of tags that are equal modulo {LINES} messages are "
                     "received in the order in which they are sent")
        return work

    # ---- parts of the above ----

    def _start(self, collective, kind, source, target, op=0, root=0, shares=None, receives=None, through=None,
               about=0):
        """`shares`, `receives`: in bytes."""
        if self._closed:
            raise RefusedError("the process group was destroyed")
        width = WIDTHS[kind]
        inputs = (source.data_ptr(), size_of(source) // width) if source is not None else (None, 0)
        shares, receives = ([size // width for size in sizes] if sizes else sizes for sizes in (shares, receives))
        return (through or self._communicator).start(collective, kind, *inputs, target.data_ptr(),
                                                     size_of(target) // width, op, root, shares, receives, about)

    def _work(self, pending, outputs, opts, used, after=None, through=None):
        work = Work(self._watcher, pending, outputs, self._patience(opts), after)
        work.used = used
        self._under_way.add(through or self._communicator, work)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _patience(self, opts):
        """In seconds."""
        given = getattr(opts, "timeout", None)
        seconds = given.total_seconds() if given is not None else 0
        return seconds if seconds > 0 else self._seconds

    def _all(self, works, opts):
        """One work for several."""
        def finish():
            for work in works:
                work.wait()

        return Work(self._watcher, [pending for work in works for pending in work._pending],
                    [output for work in works for output in work._outputs], self._patience(opts), finish)

    def _exchange(self, what, ins, sends, outs, receives, opts, outputs):
        """An all-to-all of tensors; `sends`, `receives`: in bytes."""
        given, taken = together(ins), torch.empty(sum(receives), dtype=torch.uint8, device="cpu")
        pending = self._start(ALL_TO_ALL, kind_of(what, *ins, *outs), given, taken, shares=sends, receives=receives)
        sizes = [sum(receives)] if len(outs) == 1 else receives
        return self._work([pending], outputs, opts, (given, taken), lambda: hand_out(taken, sizes, outs))

    def _back(self, tensors, hosts, *reductions):
        """What divides the sums of which averages are asked, cut towards zero as NCCL does, and copies results from host
        memory to where they belong; None where nothing of that is to be done. `reductions`: one for each tensor, or none."""
        sums = [host for host, how in zip(hosts, reductions) if how.divided]
        pairs = [(tensor, host) for tensor, host in zip(tensors, hosts) if tensor is not host]

        def finish():
            for whole in sums:
                whole.div_(self.size(), rounding_mode="trunc")
            for tensor, host in pairs:
                tensor.detach().copy_(host)

        return finish if sums or pairs else None

    def _zeros(self):
        return [0] * self.size()

    def _splits(self, tensor, splits):
        if not splits:
            rows = tensor.shape[0] if tensor.dim() else 1
            if rows % self.size():
                raise InvalidError(f"all_to_all: a tensor of {rows} rows is not divided evenly among {self.size()} ranks: "
                                   "give input_split_sizes and output_split_sizes")
            return [size_of(tensor) // self.size()] * self.size()
        self._one_each("all_to_all", splits)
        row = size_of(tensor) // max(1, tensor.shape[0])
        return [row * split for split in splits]

    def _one_each(self, what, parts):
        if len(parts) != self.size():
            raise InvalidError(f"{what}: {len(parts)} tensors or splits in a group of {self.size()} ranks")

    def _known(self, what, rank):
        if not 0 <= rank < self.size():
            raise InvalidError(f"{what}: there is no rank {rank} among {self.size()}")

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


def create(options, _):
    """Called by torch.distributed for every group, on all of its members."""
    # An older one tells no group that it is destroyed, and its C++ waits for works of Python that nobody keeps, for ever.
    if torch.__version__ < OLDEST_TORCH:
        raise RefusedError(f"the backend ringwood needs PyTorch {'.'.join(map(str, OLDEST_TORCH))}, this is {torch.__version__}: "
                           "use a newer one, or rw.DistributedOptimizer or rw.communication_hook (over the backend gloo), for "
                           "which this one is new enough")
    size, rank, store = options.group_size, options.group_rank, options.store
    joined = join(store, rank, size, options.timeout, list(options.global_ranks_in_group))
    ranks = list(options.global_ranks_in_group) or list(range(size))
    key = joined.key("number")
    if rank == 0:
        store.set(key, str(joined.number()))
    group = ProcessGroup(joined, ranks, rank, options.timeout, store, int(aside(store.get, key)))
    if joined.groups == 1:
        group.barrier().wait()  # the start is over: what comes now may take its time
    return group


def register():
    """The backend, by name. Once."""
    if "RINGWOOD" not in torch.distributed.Backend._plugins:
        torch.distributed.Backend.register_backend("ringwood", create, extended_api=True, devices=["cpu", "cuda"])
        hand_over_futures()
