"""Wire formats as pure code: text in, typed messages out. They import nothing of streamer but its limits."""
