"""For tests of services and of their clients: a model that hears any text exactly, and a proxy with faults."""
