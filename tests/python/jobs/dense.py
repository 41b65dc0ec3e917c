"""Dense tensors of integers: after every step all ranks hold sum(weight * gradient) / sum(weight)."""

import numpy as np

import ringwood

SIZES = {"scalar": 1, "bias": 1000, "matrix": 70_001}


def gradient(rank, step, name):
    return np.random.default_rng([rank, step, SIZES[name]]).integers(-50, 50, SIZES[name])


with ringwood.Session() as session:
    # Rank 0 has no sample in the odd steps, the others have rank + 1.
    def weight(rank, step):
        return 0 if rank == 0 and step % 2 and session.world > 1 else rank + 1

    arrays = {name: np.zeros(size, np.float32) for name, size in SIZES.items()}
    for name, array in arrays.items():
        session.register(name, array, route="dense")
    for step in range(4):
        for name, array in arrays.items():
            array[:] = gradient(session.rank, step, name)
        session.begin_step(weight(session.rank, step))
        for name in reversed(arrays) if session.rank % 2 else arrays:  # each in its own order
            session.ready(name)
        result = session.finish_step()
        total = sum(weight(rank, step) for rank in range(session.world))
        assert result.step == step + 1 == session.step and not result.skipped
        assert result.total_weight == total
        assert result.sparse_bytes == 0 and (result.dense_bytes > 0) == (session.world > 1), result
        for name, array in arrays.items():
            expected = sum(weight(rank, step) * gradient(rank, step, name)
                           for rank in range(session.world))
            np.testing.assert_array_equal(array, (expected / total).astype(np.float32), err_msg=name)
    ones = np.full(5, session.rank + 1, np.int64)
    ranks = range(1, session.world + 1)
    assert (session.allreduce(ones.copy()) == sum(ranks)).all()
    assert (session.allreduce(ones.copy(), op="max") == session.world).all()
    assert (session.allreduce(ones.copy(), op="min") == 1).all()
    assert (session.allreduce(ones.astype(np.float64), op="average") == sum(ranks) / len(ranks)).all()
    for values in (np.arange(23, dtype=np.float32).reshape(23, 1), np.zeros((0,), np.int64)):
        mine = session.share(values.size)
        scattered = values * (session.rank + 1)
        before = scattered.copy()
        share = session.reduce_scatter(scattered)
        np.testing.assert_array_equal(share, values.ravel()[mine] * sum(ranks))
        before.ravel()[mine] = share  # the rest stays
        np.testing.assert_array_equal(scattered, before)
        np.testing.assert_array_equal(session.all_gather(scattered), values * sum(ranks))
    averaged = session.reduce_scatter(np.ones(session.world), op="average")
    assert averaged.tolist() == [1.0], averaged
    root = session.world - 1
    assert (session.broadcast(ones, root=root) == session.world).all()
    assert session.residual("bias").tolist() == [0] * 1000
