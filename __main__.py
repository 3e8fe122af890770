"""`python -m foretune`: the command without its script."""

from .cli import main

if __name__ == "__main__":
    main()
