"""HTTP and websockets at the bridge's port: one reader for all paths, and what the port answers to plain requests."""
