"""A service under load: live sessions by the dozen, how many it carries, and what those feel that it refuses."""
