class Job:
    """Of ringwood.torch; nothing of it is for users."""
