"""Sessions of the soak test in the formats of other services, and recordings over HTTP."""
