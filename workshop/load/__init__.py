"""Live sessions beside costly ones, and the arrangements of one encoder with its heads."""
