"""Who may come in, and how much of the service one caller may have."""
