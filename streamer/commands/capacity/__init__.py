"""How many sessions a machine can serve: measured for its processors, and computed for its memory."""
