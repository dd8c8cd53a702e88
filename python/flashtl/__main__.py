"""python -m flashtl: the command."""
from ._command import main

main()
