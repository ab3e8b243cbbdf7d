"""Which callers are admitted, and how much of the service one caller may use."""
