"""`python -m streamer` is the command `streamer`."""

if __name__ == "__main__":
    try:
        from streamer.commands.cli import run

        status = run()
    except KeyboardInterrupt:  # also in the first moments, while the command line is being imported
        status = 130
    raise SystemExit(status)
