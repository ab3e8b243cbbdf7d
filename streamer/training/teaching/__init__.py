"""A larger acoustic model made from a trained one, and how the small one learns from it."""
