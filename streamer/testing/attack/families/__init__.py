"""The attacks, one module for each family; catalogue.py lists them."""
