"""The networks in torch: the reference, what is trained, and what computes on a GPU."""
