"""Wire formats as pure code: text in, typed messages out. They import nothing else of streamer."""
