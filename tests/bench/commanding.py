"""Runs a command of memspine in this process and prints how much memory it has after that, and how much it had at most,
in MB. Run by test_start.py."""

import sys


def main():
    """Run what the arguments say, as the command `memspine` does."""
    from memspine.cli import main as command

    code = command(sys.argv[1:])
    from timing import peak_megabytes, resident_megabytes  # beside this file, which runs as a script

    print(resident_megabytes())
    print(peak_megabytes())
    return code


if __name__ == "__main__":
    sys.exit(main())
