"""One client's session as pure code: no sockets, no clocks, no threads. It is tested by feeding it."""
