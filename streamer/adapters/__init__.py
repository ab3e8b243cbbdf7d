"""The code inside Triton: it turns requests into calls of the engine, and results of the engine into responses."""
