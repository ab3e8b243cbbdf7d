"""What the port answers to plain HTTP."""
