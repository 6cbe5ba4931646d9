"""`python -m gravbench`."""

from gravbench.cli import main

if __name__ == "__main__":
    main()
