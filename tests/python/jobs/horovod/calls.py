"""Horovod's calls by their names: results, gradients, handles, process sets, objects, and what is refused."""

import torch

import ringwood
import ringwood.horovod as hvd

hvd.init()
hvd.init()  # does nothing
rank, size = hvd.rank(), hvd.size()
assert hvd.is_initialized() and hvd.local_size() == size and hvd.local_rank() == rank
assert (hvd.cross_rank(), hvd.cross_size(), hvd.is_homogeneous()) == (0, 1, True)
assert not hvd.nccl_built() and not hvd.mpi_enabled() and not hvd.mpi_threads_supported()
TYPES = [torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]


def refused(words, call):
    try:
        call()
    except hvd.HorovodInternalError as error:
        assert all(word in str(error) for word in ([words] if isinstance(words, str) else words)), error
    else:
        raise AssertionError(f"not refused: {words}")


def all_reduces():
    for dtype in TYPES:
        for dimensions in (1, 3) if dtype is torch.float32 else (2,):
            tensor = torch.full([17] * dimensions, rank + 1).to(dtype)
            total = size * (size + 1) // 2
            assert (hvd.allreduce(tensor, op=hvd.Sum) == total).all()
            assert (hvd.allreduce(tensor, average=False, name=f"n.{dtype}") == total).all()
            assert (hvd.allreduce(tensor, op=hvd.Min) == 1).all()
            assert (hvd.allreduce(tensor, op=hvd.Max) == size).all()
            mean = hvd.allreduce(tensor)
            expected = total / size if dtype.is_floating_point else total // size
            assert (mean == expected).all() and (tensor == rank + 1).all()
            hvd.allreduce_(tensor, op=hvd.Sum)
            assert (tensor == total).all()
    scaled = hvd.allreduce(torch.ones(4), op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)
    assert scaled.tolist() == [size / 2] * 4
    small = hvd.allreduce(torch.full((5,), 0.5 + rank), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert small.dtype is torch.float32 and small[0] == size / 2 + size * (size - 1) / 2
    whole = torch.tensor([5, 7 * (rank + 1)])
    total = [5 * size, 7 * size * (size + 1) // 2]
    for dtype in (torch.int32, torch.int64, torch.uint8):  # scaled in double and cut off, as Horovod does
        given = whole.to(dtype)
        for call in (hvd.allreduce, lambda tensor, **how: hvd.allreduce_(tensor.clone(), **how)):
            assert call(given, op=hvd.Sum, prescale_factor=0.5).tolist() == [
                2 * size, sum(7 * (each + 1) // 2 for each in range(size))]
            assert call(given, op=hvd.Sum, postscale_factor=0.5).tolist() == [each // 2 for each in total]
            assert call(given, postscale_factor=0.5).tolist() == [each // (2 * size) for each in total]
        assert given.tolist() == whole.tolist()
    product = hvd.allreduce(torch.full((2,), 2.0), op=hvd.Product)
    assert product.tolist() == [2.0 ** size] * 2


def handles():
    tensors = [torch.full((1000 * (i + 1),), float(i)) for i in range(5)]
    started = [hvd.allreduce_async(tensor, op=hvd.Sum, name=str(i)) for i, tensor in enumerate(tensors)]
    for i, handle in reversed(list(enumerate(started))):
        result = hvd.synchronize(handle)
        assert (result == i * size).all()
    refused("no handle", lambda: hvd.synchronize(started[0]))
    handle = hvd.allreduce_async_(tensors[4], op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle) is tensors[4] and tensors[4][0] == 4 * size
    grouped = hvd.grouped_allreduce([torch.full((3,), float(rank)), torch.full((2, 2), 1.0)], op=hvd.Sum)
    assert grouped[0][0] == size * (size - 1) / 2 and grouped[1][1, 1] == size
    pair = [torch.ones(3), torch.ones(1)]
    hvd.grouped_allreduce_(pair, op=hvd.Sum)
    assert pair[0][2] == pair[1][0] == size


def gathers():
    for dtype in TYPES:
        rows = [(3 * each + 1) % 5 for each in range(size)]
        gathered = hvd.allgather(torch.full((rows[rank], 2, 3), rank).to(dtype))
        assert gathered.shape == (sum(rows), 2, 3) and gathered.dtype is dtype
        assert gathered[:, 1, 2].tolist() == [each for each in range(size) for _ in range(rows[each])]
    refused("first dimension", lambda: hvd.allgather(torch.ones(2, rank + 1)))
    refused("without dimensions", lambda: hvd.allgather(torch.tensor(1.0)))
    for root in range(size):
        tensor = torch.full((5, 5), float(rank))
        assert (hvd.broadcast(tensor, root) == root).all() and (tensor == rank).all()
        hvd.broadcast_(tensor, root_rank=root)
        assert (tensor == root).all()
    refused("not in", lambda: hvd.broadcast(torch.ones(1), size))
    assert [each["rank"] for each in hvd.allgather_object({"rank": rank, "text": "x" * rank})] == list(range(size))
    assert hvd.broadcast_object({"lr": 0.1} if rank == 0 else None, root_rank=0) == {"lr": 0.1}


def exchanges():
    splits = [each + 1 for each in range(size)]
    out, received = hvd.alltoall(torch.full((sum(splits), 2), float(rank)), splits=splits)
    assert received.tolist() == [rank + 1] * size
    assert out[:, 0].tolist() == [float(each) for each in range(size) for _ in range(rank + 1)]
    even = hvd.alltoall(torch.arange(float(size * 2)))
    assert even.tolist() == [rank * 2.0, rank * 2.0 + 1] * size
    refused("splits", lambda: hvd.alltoall(torch.ones(3), splits=[1] * size + [1]))
    rows = size * 2 + 1  # the first rank has one more
    scattered = hvd.reducescatter(torch.arange(float(rows)).reshape(rows, 1), op=hvd.Sum)
    first = 0 if rank == 0 else 1 + rank * 2
    assert scattered[:, 0].tolist() == [size * float(first + i) for i in range(3 if rank == 0 else 2)]
    assert hvd.reducescatter(torch.full((size,), 6.0)).tolist() == [6.0]
    halves = hvd.reducescatter(torch.full((size,), 5), op=hvd.Sum, prescale_factor=0.5)
    assert halves.tolist() == [2 * size] and halves.dtype is torch.int64
    assert hvd.reducescatter(torch.full((size,), 5), postscale_factor=0.5).tolist() == [2]
    refused("Average or hvd.Sum", lambda: hvd.reducescatter(torch.ones(size), op=hvd.Min))


def gradients():
    """By Horovod's rules; rank r multiplies what comes of the call by r + 1."""
    mean, each = (size + 1) / 2, torch.arange(1.0, size + 1)
    by_rank = torch.cat([each[:1], each])  # of size + 1 rows, of which the first rank has two

    def check(call, expected, shape=(4, 3)):
        tensor = torch.ones(shape, requires_grad=True)
        (call(tensor) * (rank + 1)).sum().backward()
        torch.testing.assert_close(tensor.grad, torch.as_tensor(expected).reshape(-1, 1).expand(shape))

    check(lambda t: hvd.allreduce(t, op=hvd.Sum), mean * size)
    check(lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), mean * size * 1.5)
    check(lambda t: hvd.allreduce(t), mean)
    check(lambda t: hvd.allgather(t), mean, (rank + 1, 2))
    check(lambda t: hvd.broadcast(t, 0), mean if rank == 0 else 0.0)
    check(lambda t: hvd.alltoall(t), each, (size, 2))
    check(lambda t: hvd.alltoall(t, splits=[2] + [1] * (size - 1))[0], by_rank, (size + 1, 2))
    check(lambda t: hvd.reducescatter(t), by_rank, (size + 1, 2))
    check(lambda t: hvd.reducescatter(t, op=hvd.Sum), by_rank * size, (size + 1, 2))
    check(lambda t: hvd.reducescatter(t, prescale_factor=0.5, postscale_factor=3.0), by_rank * 1.5, (size + 1, 2))
    check(lambda t: sum(hvd.grouped_allreduce([t, 2 * t], op=hvd.Sum)), 3 * mean * size)
    check(lambda t: sum(hvd.grouped_allgather([t, 2 * t])), 3 * mean, (rank + 1, 2))
    check(lambda t: sum(hvd.grouped_reducescatter([t, 2 * t], op=hvd.Sum)), 3 * by_rank * size, (size + 1, 2))


def process_sets():
    evens = hvd.add_process_set(hvd.ProcessSet(range(0, size, 2)))
    odds = hvd.add_process_set(list(range(1, size, 2)))
    mine = evens if rank % 2 == 0 else odds
    assert mine.included() and mine.size() == len(mine.ranks) and mine.ranks[mine.rank()] == rank
    total = hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum, process_set=mine)
    assert total.item() == sum(mine.ranks)
    assert hvd.broadcast(torch.tensor([rank]), mine.ranks[-1], process_set=mine).item() == mine.ranks[-1]
    assert hvd.allgather(torch.tensor([rank]), process_set=mine).tolist() == mine.ranks
    refused("is not in", lambda: hvd.allreduce(torch.ones(1), process_set=odds if mine is evens else evens))
    refused("was not added", lambda: hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0])))
    refused("there are no ranks", lambda: hvd.add_process_set([0, size]))
    assert hvd.remove_process_set(odds) and not hvd.remove_process_set(hvd.global_process_set)


def differences():
    """Calls whose bytes would fit one another."""
    odd = rank == 1
    ones = torch.ones(2 * size, dtype=torch.int32 if odd else torch.float32)
    both = ["float32", "int32", "on rank 0", "on rank 1"]
    refused(both, lambda: hvd.allgather(ones))
    refused(both, lambda: hvd.alltoall(ones))
    refused(both, lambda: hvd.broadcast(ones, 0))
    refused(both, lambda: hvd.broadcast_(ones, 0))
    refused("another rank" if rank != 1 else ["int32", "float32"], lambda: hvd.broadcast_parameters({"a": ones}, 0))
    refused(["(2, 3) on rank 0", "(3, 2) on rank 1"], lambda: hvd.alltoall(torch.ones((size, 3, 2) if odd else (size, 2, 3))))
    refused(["(7, 9), scaled", "(9, 7), scaled"], lambda: hvd.allreduce(torch.ones((9, 7) if odd else (7, 9)), op=hvd.Sum))
    refused(["allreduce Average", "allreduce Sum"], lambda: hvd.allreduce(torch.ones(5), op=hvd.Sum if odd else hvd.Average))
    refused(["by 1.0 and 1.0", "by 2.0 and 1.0"], lambda: hvd.allreduce(torch.ones(5), prescale_factor=2.0 if odd else 1.0))
    refused("from rank 1", lambda: hvd.broadcast(torch.ones(5), int(odd)))
    refused("reducescatter Sum", lambda: hvd.reducescatter(torch.ones(5), op=hvd.Sum if odd else hvd.Average))
    tensors = {"a": torch.tensor([1.0 + rank]), "b": torch.tensor([5.0 + rank])}
    hvd.broadcast_parameters(dict(reversed(tensors.items())) if odd else tensors, 0)
    hvd.broadcast_parameters([torch.ones(1), *tensors.values()], 0)
    assert tensors == {"a": torch.tensor([1.0]), "b": torch.tensor([5.0])}
    refused("pairs of a name", lambda: hvd.broadcast_parameters([1, 2], 0))


def refusals():
    refused("Adasum", lambda: hvd.allreduce(torch.ones(1), op=hvd.Adasum))
    refused("not both", lambda: hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum))
    for name, remedy in (("elastic", "ringwood.torch.elastic"), ("SyncBatchNorm", "GroupNorm"),
                         ("start_timeline", "--timeline"), ("run", "ringwood run")):
        refused(remedy, lambda: getattr(hvd, name))
        assert not hasattr(hvd, name)
    assert not hasattr(hvd, "no_such_name")
    assert issubclass(hvd.HorovodInternalError, Exception) and hvd.HorovodInternalError is ringwood.RingwoodError


for check in (all_reduces, handles, gathers, exchanges, gradients, process_sets, differences, refusals):
    check()
    hvd.barrier()
hvd.shutdown()
assert not hvd.is_initialized()
print(f"rank {rank}: all as it should be", flush=True)
