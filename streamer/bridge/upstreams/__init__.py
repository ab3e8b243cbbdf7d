"""The Tritons behind the service: which of them are well, and which streams they hold."""
