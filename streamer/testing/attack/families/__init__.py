"""What attackers do, one module for each family; catalogue.py lists them."""
