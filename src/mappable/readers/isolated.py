"""Files whose libraries can crash on damaged input, read in a process of their own: MATLAB's, COLMAP's binary models.

The child process prints its result as JSON. If it dies, the file is damaged, and this process goes
on.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mappable.errors import BadInputError
from mappable.files import reading

MATLAB = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy, scipy.io
content = scipy.io.loadmat(sys.argv[1], squeeze_me=False, struct_as_record=True)
if "dbStruct" in content:
    record = content["dbStruct"]
    names = record.dtype.names
    if not names or record.size != 1:
        sys.exit("dbStruct is not a single struct")
    content = {name: record[name].ravel()[0] for name in names}
found = {}
for name in sys.argv[2:]:
    if name not in content:
        known = [one for one in content if not one.startswith("__")]
        sys.exit("no field %s; found: %s" % (name, ", ".join(known) or "none"))
    values = numpy.asarray(content[name])
    if name.endswith("Fns"):
        cells = [numpy.ravel(cell) for cell in values.ravel()]
        for number, cell in enumerate(cells, 1):
            if cell.dtype.kind != "U" or cell.size != 1:
                sys.exit("element %d of %s is not text" % (number, name))
        found[name] = [str(cell[0]).rstrip() for cell in cells]
    elif values.dtype.kind not in "fiu":
        sys.exit("%s has values of type %s, expected numbers" % (name, values.dtype))
    else:
        found[name] = values.astype(float).tolist()
json.dump(found, sys.stdout)
"""
LINES = 3  # at the end of what the child printed, that may say why it failed


def run(program: str, file: Path, *arguments: str) -> Any:
    """The JSON that a Python program prints about a file or folder; raise if it fails, with its
    last words.
    """
    command = [sys.executable, "-c", program, str(file), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")  # noqa: S603
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()][-LINES:]
        reason = said[-1][:200] if said else f"its reader stopped with code {done.returncode}"
        crashed = not said or done.stderr.startswith("Traceback")
        raise BadInputError(
            f"{file}: " + (f"damaged or half-copied ({reason})" if crashed else reason)
        )
    return json.loads(done.stdout)


def read_matlab(file: Path, fields: Sequence[str]) -> dict[str, Any]:
    """Fields of the struct `dbStruct` of a .mat file, or variables: lists of names (`…Fns`), else
    arrays of numbers.
    """
    with reading(file), file.open("rb") as stream:
        if stream.read(128)[124:126] == b"\x00\x02":
            raise BadInputError(
                f"{file}: unsupported .mat version 7.3 (HDF5); save the file as version 7"
            )
    found = run(MATLAB, file, *fields)
    return {
        name: value if name.endswith("Fns") else np.array(value, dtype=np.float64)
        for name, value in found.items()
    }
