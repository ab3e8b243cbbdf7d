"""Wire formats as pure code, without sockets, clocks and threads: text goes in, typed messages come out."""
