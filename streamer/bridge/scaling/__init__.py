"""The number of a model's instances, if it follows the load."""
