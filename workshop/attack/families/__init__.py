"""The attacks, one module for each family; `campaign` lists them."""
