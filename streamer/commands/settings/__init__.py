"""The settings of `streamer serve`: one list, with values from flags, environment variables and a TOML file."""
