"""Runs a training script in actors of Ray, one a rank, as `ringwood run` would in processes.

    ringwood server -- python -m ringwood.examples.ray_actors 4 train.py --epochs 2

On a cluster of several hosts: `ringwood server --network-interface eth0 --trusted-fabric -- …`, where the driver runs.
"""

import os
import runpy
import sys

import ray

END_SECONDS = 60  # of the others, once a rank has failed


@ray.remote(num_cpus=1)
class Rank:
    def __init__(self, rank, world):
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))

    def run(self, script, arguments):
        """The exit code that the script would have as a process."""
        sys.argv = [script, *arguments]
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as ending:
            if not isinstance(ending.code, (int, type(None))):
                print(ending.code, file=sys.stderr)
                return 1
            return ending.code or 0
        except Exception:
            try:
                sys.excepthook(*sys.exc_info())  # Ringwood's tells the other ranks, and knows the code of its own errors
            except SystemExit as ending:
                return ending.code
            return 1
        return 0


def code_of(running):
    try:
        return ray.get(running)
    except ray.exceptions.RayActorError as error:
        print(f"ray_actors: {error}", file=sys.stderr)
        return 75  # as of a process that was killed: starting again may help


def main(world, script, *arguments):
    given = {name: value for name, value in os.environ.items() if name.startswith("RINGWOOD_")}
    ray.init(runtime_env={"env_vars": given})  # of the actors, wherever they are
    ranks = [Rank.remote(rank, world) for rank in range(int(world))]
    actors = {rank.run.remote(os.path.abspath(script), arguments): rank for rank in ranks}
    running, failure = list(actors), 0
    while running:
        ended, running = ray.wait(running, timeout=END_SECONDS if failure else None)
        if not ended:
            print(f"ray_actors: a rank failed, and {len(running)} of {world} have not ended since: does Ray lack CPUs?",
                  file=sys.stderr)
            break
        code = code_of(ended[0])
        if code:
            ray.kill(actors[ended[0]])  # its session may be open still, and the others wait for it
        if code and failure in (0, 75):  # 75: that another rank has failed
            failure = code
    return failure


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdecimal() or int(sys.argv[1]) < 1 or not os.path.isfile(sys.argv[2]):
        print("usage: python -m ringwood.examples.ray_actors RANKS SCRIPT [ARGUMENTS…], where SCRIPT is a file",
              file=sys.stderr)
        sys.exit(78)
    sys.exit(main(*sys.argv[1:]))
