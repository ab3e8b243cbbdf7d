"""What the machine gives to the others: its processes, and its folder for temporary files."""
