"""Speech as it is given, prepared, aligned, degraded, and made by synthetic voices."""
