"""The Tritons behind the service: their health, and the streams that they hold."""
