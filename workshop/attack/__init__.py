"""Attacks a service of its own with hostile clients, beside other clients that must not be affected."""
