"""Marks and capitals for recognised words."""
