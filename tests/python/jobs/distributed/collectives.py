"""Every collective of the backend "ringwood" beside Gloo's, over types and shapes; subgroups, futures, messages from
rank to rank, and what is refused."""

import datetime
import gc
import threading
import time
import weakref

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import ReduceOp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import ringwood
import ringwood.torch  # noqa: F401

dist.init_process_group("ringwood", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group(backend="gloo")
both = (None, gloo)
SHAPES = [(), (0,), (20_001,)]
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8]


def values(shape, dtype, of=rank):
    """Small integers: their sums are exact in every type, whatever the order."""
    count = int(torch.Size(shape).numel())
    return ((torch.arange(count) * (of + 2) + of) % 13).to(dtype).reshape(shape)


def alike(make):
    """`make(group)` gives tensors; Ringwood's and Gloo's are the same."""
    ours, theirs = (make(group) for group in both)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other), (mine, other)


def refused(words, call, kind=ringwood.RingwoodError):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def reductions():
    for dtype in TYPES:
        for shape in SHAPES:
            for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN)[:1 if shape == SHAPES[-1] else 3]:
                def all_reduce(group):
                    tensor = values(shape, dtype)
                    dist.all_reduce(tensor, op, group=group)
                    return [tensor]

                alike(all_reduce)

            def reduce(group):
                tensor, root = values(shape, dtype), len(shape) % size
                dist.reduce(tensor, root, group=group)
                return [tensor] if rank == root else []

            alike(reduce)
    product = torch.tensor([2.0, -1.5])
    dist.all_reduce(product, ReduceOp.PRODUCT)
    assert product.tolist() == [2.0 ** size, (-1.5) ** size]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        average = torch.full((5,), float(rank), dtype=dtype)
        dist.all_reduce(average, ReduceOp.AVG)
        assert average.tolist() == [(size - 1) / 2] * 5, average
    for dtype in (torch.int32, torch.int64):  # cut towards zero, as NCCL does
        for call in (dist.all_reduce, lambda tensor, op: dist.reduce(tensor, 0, op)):
            average = torch.tensor([rank, -rank, 7], dtype=dtype)
            call(average, ReduceOp.AVG)
            assert rank and call is not dist.all_reduce or average.tolist() == [(size - 1) // 2, -((size - 1) // 2), 7], average
    turned = torch.full((5,), rank * (1 + 2j), dtype=torch.complex64)
    for op, of in ((ReduceOp.SUM, size), (ReduceOp.AVG, 1)):
        tensor = turned.clone()
        dist.all_reduce(tensor, op)
        assert torch.equal(tensor, torch.full((5,), of * (size - 1) / 2 * (1 + 2j), dtype=torch.complex64)), tensor
    flags = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flags, ReduceOp.MAX)
    assert flags.tolist() == [True, True, False]
    across = values((6, 4), torch.float32).t()  # not contiguous
    dist.all_reduce(across)
    assert torch.equal(across, sum(values((6, 4), torch.float32, r) for r in range(size)).t())


def movements():
    """What each rank gives is known; Gloo moves fewer types."""
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int8):
        for shape in SHAPES:
            everybodys = [values(shape, dtype, r) for r in range(size)]
            tensor = values(shape, dtype)
            dist.broadcast(tensor, size - 1)
            assert torch.equal(tensor, everybodys[-1])
            parts = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(parts, values(shape, dtype))
            assert all(map(torch.equal, parts, everybodys))
            parts = [torch.empty(shape, dtype=dtype) for _ in range(size)] if rank == 1 else None
            dist.gather(values(shape, dtype), parts, dst=1)
            assert rank != 1 or all(map(torch.equal, parts, everybodys))
            tensor = torch.empty(shape, dtype=dtype)
            dist.scatter(tensor, everybodys if rank == 0 else None, src=0)
            assert torch.equal(tensor, everybodys[rank])
    # One element lies in order whatever its stride; values that are only marked as negative travel as what they are.
    for of in (lambda r: torch.full((2, 3), float(r))[1:, 1], lambda r: torch.tensor([1 + 2j, r * 1j]).conj().imag,
               lambda r: torch.zeros(3, 0)[:, :0].t()):
        mine, everybodys = of(rank), [of(r) for r in range(size)]
        parts = [torch.empty_like(mine) for _ in range(size)]
        dist.gather(mine, parts if rank == 1 else None, dst=1)
        assert rank != 1 or all(map(torch.equal, parts, everybodys))
        parts = [torch.empty_like(mine) for _ in range(size)]
        dist.all_to_all(parts, [mine] * size)
        assert all(map(torch.equal, parts, everybodys))
        part = torch.empty_like(mine)
        dist.scatter(part, [mine + 1] * size if rank == 0 else None, src=0)
        assert torch.equal(part, everybodys[0] + 1)
        dist.all_gather(parts, mine)
        assert all(map(torch.equal, parts, everybodys))
    uneven = [torch.empty(r * 1000, 2) for r in range(size)]
    dist.all_gather(uneven, values((rank * 1000, 2), torch.float32))
    assert all(torch.equal(part, values((r * 1000, 2), torch.float32, r)) for r, part in enumerate(uneven))


def shares():
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for rows in (1, 3, 5000):
            whole = values((size * rows, 2), dtype)
            expected = sum(values((size * rows, 2), dtype, r) for r in range(size))
            share = torch.empty(rows, 2, dtype=dtype)
            dist.reduce_scatter_tensor(share, whole)
            assert torch.equal(share, expected[rank * rows:(rank + 1) * rows])
            assert torch.equal(whole, values((size * rows, 2), dtype))  # as it was
            gathered = torch.empty(size * rows, 2, dtype=dtype)
            dist.all_gather_into_tensor(gathered, share)
            assert torch.equal(gathered, expected)
    whole = torch.tensor([2 * rank + 1, -2 * rank - 1] * size)
    share = torch.empty(2, dtype=torch.int64)
    dist.reduce_scatter_tensor(share, whole, ReduceOp.AVG)
    assert share.tolist() == [size, -size], share
    parts = [torch.full((r + 1,), float(rank + r)) for r in range(size)]
    mine = torch.empty(rank + 1)
    dist.reduce_scatter(mine, parts, ReduceOp.MAX)
    assert mine.tolist() == [size - 1.0 + rank] * (rank + 1)
    out = torch.empty(size * 3, dtype=torch.int32)
    dist.all_to_all_single(out, torch.full((size * 3,), rank, dtype=torch.int32))
    assert out.tolist() == [r for r in range(size) for _ in range(3)]
    splits = [(rank + r) % 3 for r in range(size)]
    out = torch.empty(sum(splits), 2)
    dist.all_to_all_single(out, torch.full((sum(splits), 2), float(rank)), splits, splits)
    assert out[:, 0].tolist() == [float(r) for r in range(size) for _ in range(splits[r])]
    outs = [torch.empty(r + 1) for r in range(size)]
    dist.all_to_all(outs, [torch.full((rank + 1,), float(rank)) for _ in range(size)])
    assert [part.tolist() for part in outs] == [[float(r)] * (r + 1) for r in range(size)]


def groups():
    """Halves and evens, in another order on every rank; works wait from the last to the first."""
    halves = [dist.new_group([0, 1]), dist.new_group(list(range(2, size)))] if size > 3 else []
    evens = dist.new_group(list(range(0, size, 2)))
    mine = [group for group in (None, *halves, evens) if group is None or rank in dist.get_process_group_ranks(group)]
    mine = mine[rank % len(mine):] + mine[:rank % len(mine)]
    started = []
    for group in mine:
        for elements in (3, 100_000, 5):
            tensor = torch.full((elements,), 1.0)
            started.append((group, tensor, dist.all_reduce(tensor, group=group, async_op=True)))
    for group, tensor, work in reversed(started):
        assert work.wait() and work.is_completed() and work.is_success()
        assert tensor[-1].item() == dist.get_world_size(group)
    if rank % 2 == 0:
        one = torch.tensor([rank])
        dist.broadcast(one, 2 if size > 2 else 0, group=evens)
        dist.destroy_process_group(evens)


def futures():
    tensor = torch.ones(10)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert doubled.wait().tolist() == [2.0 * size] * 10
    gathered = functional.all_gather_tensor(torch.full((2,), float(rank)), 0, dist.group.WORLD)
    assert gathered.tolist() == [float(r) for r in range(size) for _ in range(2)]
    summed = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    assert (summed + 0).tolist() == [float(size)] * 3


def callbacks():
    """They wait for calls that they start, and for those that others have started."""
    def again(future):
        tensor = future.value()[0] + 1
        return dist.all_reduce(tensor, async_op=True).get_future().wait()[0]

    def thrice(future):
        inner = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(again)
        return inner.wait() + dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

    for callback, expected in ((again, (size + 1) * size), (thrice, (size + 1) * size + size * size)):
        works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(3)]
        results = [work.get_future().then(callback) for work in works]
        assert [result.wait().tolist() for result in results] == [[expected] * 2] * 3

    def late(future):  # it does nothing meanwhile, as one that waits for a device; the order of what it starts holds
        time.sleep(0.5 if rank == 0 and future.value()[0][0] == 0 else 0)
        return again(future)

    works = [dist.all_reduce(torch.full((2,), float(i)), async_op=True) for i in range(3)]
    results = [work.get_future().then(late) for work in works]
    assert [result.wait().tolist() for result in results] == [[(i * size + 1.0) * size] * 2 for i in range(3)]
    # A callback that waits for later calls holds them up until their time is over; they keep their order then.
    def remember(future):
        time.sleep(0.3 if future.value()[0].item() == 2 * size else 0)
        seen.append(future.value()[0].item())

    group = dist.new_group(timeout=datetime.timedelta(seconds=8))
    later, seen, one = [], [], torch.zeros(1)
    first = dist.irecv(one, (rank - 1) % size, group, tag=5).get_future().then(lambda _: torch.futures.wait_all(later))
    for i in range(20):
        work = dist.all_reduce(torch.full((1,), float(i)), group=group, async_op=True)
        later.append(work.get_future().then(remember))
    dist.barrier()  # on no rank has a callback run yet
    dist.isend(torch.ones(1), (rank + 1) % size, group, tag=5).wait()
    first.wait()
    assert seen == [float(i * size) for i in range(20)], seen  # in the order of the calls


def outputs():
    """Inference tensors are filled in whatever mode they are waited for. An error in filling one is that call's only."""
    with torch.inference_mode():
        gathered = [[torch.empty(2) for _ in range(size)] for _ in range(2)]
        works = [dist.all_gather(parts, torch.full((2,), float(rank)), async_op=True) for parts in gathered]
    works[0].wait()
    works[1].get_future().wait()
    for parts in gathered:
        assert [part.tolist() for part in parts] == [[float(r)] * 2 for r in range(size)], parts
    one, whole = torch.zeros(1), torch.ones(5)
    work = dist.all_reduce(one.expand(5), async_op=True)
    for _ in range(3):
        dist.all_reduce(whole, ReduceOp.MAX)  # each asks which of those before it are over
    refused("more than one element", work.wait, RuntimeError)
    refused("more than one element", work.wait, RuntimeError)
    assert work.is_completed() and not work.is_success() and whole.tolist() == [1.0] * 5


def messages():
    after, before = (rank + 1) % size, (rank - 1) % size
    for elements in (0, 4, 1_000_000):
        got = torch.empty(elements)
        works = [dist.isend(torch.full((elements,), float(rank)), after), dist.irecv(got, before)]
        for work in works:
            work.wait()
        assert (got == before).all()
    got = torch.empty(2)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, before, tag=3),
                                        dist.P2POp(dist.isend, torch.full((2,), rank + 0.5), after, tag=3)]):
        work.wait()
    assert got.tolist() == [before + 0.5] * 2
    keys = []
    for tag in range(320):  # a new one for each message, as in a script that numbers its steps
        sent = dist.isend(torch.tensor([rank, tag]), after, tag=tag)
        pair = torch.empty(2, dtype=torch.int64)
        dist.recv(pair, before, tag=tag)
        sent.wait()
        assert pair.tolist() == [before, tag]
        if tag in (255, 319):
            dist.barrier()  # the others have made theirs
            keys.append(dist.distributed_c10d._get_default_store().num_keys())
            dist.barrier()
    assert keys[0] == keys[1], f"torch's store grows with the tags: {keys}"
    stop, alive = torch.zeros(1), []
    waiting = dist.irecv(stop, before, tag=9)
    for _ in range(10):
        tensor = torch.ones(1000)
        alive.append(weakref.ref(tensor))
        dist.all_reduce(tensor)
    del tensor
    dist.barrier()
    gc.collect()
    assert sum(each() is not None for each in alive) <= 1, "a message that is not sent yet keeps later tensors"
    dist.isend(torch.ones(1), after, tag=9).wait()
    waiting.wait()
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "words": "x" * rank})
    assert [each["rank"] for each in objects] == list(range(size))
    given = [f"from {rank}", rank]
    dist.broadcast_object_list(given, src=size - 1)
    assert given == [f"from {size - 1}", size - 1]


def coalesced():
    """With and without a device."""
    rows, whole = torch.full((2,), float(rank)), torch.arange(size * 2.0)
    after, before = (rank + 1) % size, (rank - 1) % size
    for device in (None, torch.device("cpu")):
        for wait in (False, True):
            def together(*calls):
                with dist._coalescing_manager(device=device, async_ops=wait) as manager:
                    for call in calls:
                        call()
                if wait:
                    manager.wait()

            one, two = torch.ones(3), torch.full((1000,), 2.0)
            together(lambda: dist.all_reduce(one), lambda: dist.all_reduce(two))
            assert one.tolist() == [size] * 3 and two.tolist() == [2.0 * size] * 1000
            counts = [torch.tensor([rank]), torch.tensor([2 * rank + 1])]
            together(*(lambda count=count: dist.all_reduce(count, ReduceOp.AVG) for count in counts))
            assert counts == [(size - 1) // 2, size], counts
            outs = [torch.empty(size * 2) for _ in range(2)]
            together(*(lambda out=out: dist.all_gather_into_tensor(out, rows) for out in outs))
            assert all(out.tolist() == [float(r) for r in range(size) for _ in range(2)] for out in outs)
            shares = [torch.empty(2) for _ in range(2)]
            together(*(lambda share=share: dist.reduce_scatter_tensor(share, whole) for share in shares))
            assert all(torch.equal(share, size * whole[rank * 2:rank * 2 + 2]) for share in shares)
    got, root = torch.empty(2), rows.clone()
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.irecv(got, before)
        dist.isend(rows, after)
        dist.broadcast(root, size - 1, async_op=True)
    manager.wait()
    assert got.tolist() == [before] * 2 and root.tolist() == [size - 1] * 2


def refusals():
    refused("torch.sparse_coo", lambda: dist.all_reduce(torch.eye(3).to_sparse()))
    refused("on meta without memory", lambda: dist.all_reduce(torch.empty(3, device="meta")))
    sharded = DTensor.from_local(torch.ones(3), init_device_mesh("cpu", (size,)), [Shard(0)])
    refused("to_local()", lambda: dist.broadcast(sharded, 0))
    refused("to_local()", lambda: dist.all_gather_into_tensor(sharded, torch.ones(3)))
    refused("uint8", lambda: dist.all_reduce(torch.ones(3, dtype=torch.uint8), ReduceOp.AVG))
    refused("BXOR", lambda: dist.all_reduce(torch.ones(3, dtype=torch.int32), ReduceOp.BXOR))
    refused("int8", lambda: dist.all_reduce(torch.ones(3, dtype=torch.int8)))
    refused("name the source", lambda: dist.recv(torch.empty(1)))
    for call in (dist.isend, dist.irecv, lambda tensor, to: dist.gather(tensor, dst=to),
                 lambda tensor, to: dist.scatter(tensor, src=to)):
        for other in (-1, size):
            refused(f"there is no rank {other} among {size}", lambda: call(torch.ones(1), other))
    refused(f"{size + 1} rows", lambda: dist.all_to_all_single(torch.empty(size + 1), torch.ones(size + 1)))
    for call, given, taken in ((dist.all_gather_into_tensor, 2, 2 * size), (dist.reduce_scatter_tensor, 2 * size, 2)):
        refused("torch.float32 and torch.int32", lambda: call(torch.empty(taken, dtype=torch.int32), torch.ones(given)))
    refused("do not fit", lambda: dist.all_gather_into_tensor(torch.empty(size * 2 + 1), torch.empty(2)))


for check in (reductions, movements, shares, groups, futures, callbacks, outputs, messages, coalesced, refusals):
    check()
    dist.barrier()
dist.destroy_process_group()
deadline = time.monotonic() + 60
while any(thread.name.startswith("rw-group-") for thread in threading.enumerate()):
    assert time.monotonic() < deadline, threading.enumerate()
    time.sleep(0.01)
for _ in range(3):  # again, in the same process and over the same store of torch's
    dist.init_process_group("ringwood")
    again = torch.ones(3)
    dist.all_reduce(again)
    assert again.tolist() == [float(size)] * 3
    dist.destroy_process_group()
print(f"rank {rank}: all as it should be", flush=True)
