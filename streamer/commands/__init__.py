"""The commands of the command line, and what several of them need: arguments, a service to use, an end in order."""
