"""Sparse tensors of integers: nothing is lost. For every tensor and step, exactly:

    sum over ranks (residual before + weight * gradient) = applied sum + sum over ranks residual after

argv: cuda, where the gradients lie on a device.
"""

import sys

import numpy as np

import ringwood

SIZES = {"wide": 300_000, "large": 80_000, "small": 3000}  # wide: index ranges on several servers
DENSITY = 0.02

with ringwood.Session() as session:
    random = np.random.default_rng(7 + session.rank)
    arrays = {name: np.zeros(size, np.float32) for name, size in SIZES.items()}
    placed = arrays
    if sys.argv[1:] == ["cuda"]:
        import torch
        placed = {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}
    for name, gradient in placed.items():
        session.register(name, gradient, route="sparse", density=DENSITY)
    weight = 1 + session.rank % 2
    for step in range(5):
        before = {}
        for name, array in arrays.items():
            array[:] = random.integers(-1000, 1000, array.size)
            if placed is not arrays:
                placed[name].copy_(torch.from_numpy(array))
            before[name] = session.residual(name) + weight * array
            session.allreduce(before[name])
        session.begin_step(weight)
        for name in arrays:
            session.ready(name)
        result = session.finish_step()
        kept = {}
        for name, array in arrays.items():
            if placed is not arrays:
                array[:] = placed[name].cpu().numpy()
            applied = np.rint(array.astype(np.float64) * result.total_weight)
            np.testing.assert_allclose(applied, array.astype(np.float64) * result.total_weight,
                                       rtol=1e-6)  # integers again
            kept[name] = np.count_nonzero(applied)
            after = session.allreduce(session.residual(name).astype(np.float64))
            np.testing.assert_array_equal(before[name], applied + after, err_msg=f"{name} step {step}")
            same = session.broadcast(array.copy(), root=0)
            np.testing.assert_array_equal(array, same)
        assert all(kept.values()), kept
        if session.world > 1:  # tensors that share a message share its entries
            assert sum(kept.values()) <= round(DENSITY * sum(SIZES.values())), kept
            assert 0 < result.sparse_bytes < result.dense_equivalent_bytes, result
