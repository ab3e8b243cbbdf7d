"""Live sessions beside costly ones, what the bridge costs, and what sessions leave behind."""
