"""The commands of the command line, and the parts that several of them use: arguments and an orderly end."""
