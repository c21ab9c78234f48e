"""`python -m hutong` is the command `hutong`."""

from hutong.cli.main import main

main()
