"""The settings of `streamer serve`: one list, read from flags, the environment and a TOML file."""
