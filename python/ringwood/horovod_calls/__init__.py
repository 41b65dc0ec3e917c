"""Horovod's collectives: named, by handle, differentiable, of process sets. See ringwood.horovod."""
