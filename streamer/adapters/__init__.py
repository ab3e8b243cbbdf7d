"""What runs inside Triton: turns requests into calls of the engine, and what the engine gives into responses."""
