"""`python -m mappable`, which is what `torchrun -m mappable train` starts."""

from mappable.cli import main

if __name__ == "__main__":
    main()
