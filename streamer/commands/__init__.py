"""The commands of the command line, and what several of them need: arguments, a service, and an orderly end."""
