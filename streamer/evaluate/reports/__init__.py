"""Reports of evaluations, as text for people and as JSON for programs. Pure."""
