"""The command `streamer models`: the public models of this machine."""
