"""A service that is used for long: one session of an hour, or thousands of them among faults."""
