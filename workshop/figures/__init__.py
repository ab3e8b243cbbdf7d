"""The figures about speed and capacity: measured by one command, kept in one file, and written into the pages."""
