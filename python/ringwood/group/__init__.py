"""What a process group of torch.distributed is made of: communicators, calls that were started, tensors."""
