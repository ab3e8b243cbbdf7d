"""One client's session as pure code, without sockets, clocks or threads. Tests feed it with messages and times."""
