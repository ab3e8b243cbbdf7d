"""HTTP and websockets at the bridge's port: one reader for all paths, and the answers to plain requests."""
