"""The command line: one module per command, registered in :mod:`lqw.cli.app`."""
