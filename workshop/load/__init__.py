"""Tests under load: many live sessions, the capacity of a service, overload, and costly sessions."""
