"""Entry point of `python -m mappable`; `torchrun -m mappable train` starts it."""

from mappable.cli import main

if __name__ == "__main__":
    main()
