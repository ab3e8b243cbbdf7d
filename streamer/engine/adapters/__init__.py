"""What runs inside Triton: it turns requests into calls of the engine, and the engine's results into responses."""
