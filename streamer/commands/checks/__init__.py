"""The checks of `streamer doctor`: each tells what this machine has, and how to repair what is wrong."""
