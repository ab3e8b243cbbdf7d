"""Training and measuring the turn model."""
