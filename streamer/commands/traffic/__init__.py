"""Live sessions at the pace of speech: their clients, what is measured of them and of the service, and the report."""
