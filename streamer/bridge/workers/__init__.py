"""Several processes that serve one port: what they share, and what a request does that belongs to another of them."""
