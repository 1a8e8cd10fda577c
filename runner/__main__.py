"""`python -m runner` is `ansible-operator`."""

from runner.cli.main import main

if __name__ == "__main__":
    main()
