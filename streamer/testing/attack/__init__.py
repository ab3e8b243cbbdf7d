"""A standing attacker: hostile clients at a service of its own, beside others that must feel nothing of it."""
