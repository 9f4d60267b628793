"""`mappable selfcheck`: compare the fast code with slow reference code, on random data."""

from dataclasses import asdict

from rich.text import Text

from mappable.cli.common import AsJson, Device, Seed, print_json
from mappable.cli.output import print_table
from mappable.errors import MappableError

NUMBER_COLUMNS = ["largest difference", "tolerance"]
STATUS = {True: Text("ok", "green"), False: Text("FAILED", "red"), None: Text("skipped", "yellow")}


def selfcheck(device: Device = "auto", seed: Seed = 0, as_json: AsJson = False) -> None:
    """Check losses, gradients, mining, search, MDS, SMACOF and alignment against slow reference code.

    Run it after you change code, and on new hardware. It takes seconds and uses random data. The exit code is 1 if a
    check fails.
    """
    from mappable.evaluation.selfcheck import self_check

    checks = self_check(device, seed)
    if as_json:
        passed = all(one.passed is not False for one in checks)
        print_json({"seed": seed, "passed": passed, "checks": [asdict(one) for one in checks]})
    else:
        rows: list[list[str | Text]] = []
        for one in checks:
            difference = f"{one.difference:.1e}" if one.difference is not None else "" if one.error else "not finite"
            what = one.compared if one.error is None else f"{one.compared}: {one.error}"
            rows.append([one.name, what, difference, f"{one.tolerance:.0e}", STATUS[one.passed]])
        print_table(["check", "compared", *NUMBER_COLUMNS, ""], rows, numbers=NUMBER_COLUMNS)
    failed = [one.name for one in checks if one.passed is False]
    if failed:
        raise MappableError(f"{len(failed)} of {len(checks)} checks failed (seed {seed}): {'; '.join(failed)}")
