"""Loads models when sessions first ask for them, and lets unused ones go when another needs the memory."""
