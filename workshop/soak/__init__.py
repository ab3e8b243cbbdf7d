"""Long tests of a service: one session of an hour, or thousands of sessions during faults."""
