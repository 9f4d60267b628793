"""Time to open a map of 10,000 x 32,768 and to answer: each run is a fresh process, with and without the checks.

    python studies/opening/opening.py            # a minute, 3 GB of memory, 1.3 GB in the temporary folder
    python studies/opening/opening.py --runs 9   # medians of more runs

A run opens the map, opens it again, asks once, and then asks five times more. "Unchecked" reads the same descriptors
without checksums, for comparison; the package itself has no such option. "Cold" begins without the descriptors in the
page cache. All take turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mappable.maps import Landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

LANDMARKS, DIMENSIONS, LATER = 10_000, 32_768, 5
ONE_RUN = """
import json, sys, time
import numpy as np
from mappable.maps import Landmarks
from mappable.maps.exact import Exact

folder, checked, dimensions, later = sys.argv[1], sys.argv[2] != "unchecked", int(sys.argv[3]), int(sys.argv[4])
query = np.random.default_rng(1).standard_normal((1, dimensions), dtype=np.float32)
query /= np.linalg.norm(query)
clocks = [(time.perf_counter(), time.process_time())]
def stop():
    clocks.append((time.perf_counter(), time.process_time()))
opened = Landmarks.open(folder); stop()
opened = Landmarks.open(folder); stop()
store = opened.store if checked else Exact(np.load(opened.files["descriptors"].path, mmap_mode="r"))
store.nearest(query, 1); stop()
for _ in range(later):
    store.nearest(query, 1)
stop()
print(json.dumps(np.diff(clocks, axis=0).tolist()))
"""


def made_up_map(folder: Path) -> None:
    """Save a map of random descriptors."""
    vectors = np.random.default_rng(0).standard_normal((LANDMARKS, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"{number:05d}.png" for number in range(LANDMARKS)]
    places = Places(path=names, x=np.arange(float(LANDMARKS)), y=np.zeros(LANDMARKS), frames=Frame("line"))
    Landmarks.build(places, vectors, "made-up").save(folder)


def forget(file: Path) -> None:
    """Remove a file from the page cache."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="processes of each kind")
    given = parser.parse_args()
    taken: dict[str, list[object]] = {"checked": [], "unchecked": [], "cold": []}
    with TemporaryDirectory() as folder:
        made_up_map(Path(folder) / "map")
        for _ in range(given.runs):
            for kind, times in taken.items():
                if kind == "cold":
                    forget(next(Path(folder).glob("map/descriptors-*")))
                words = [sys.executable, "-c", ONE_RUN, f"{folder}/map", kind, str(DIMENSIONS), str(LATER)]
                times.append(json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout))
    print(f"{LANDMARKS:,} x {DIMENSIONS:,}; {os.cpu_count()} CPU cores, load {os.getloadavg()[0]:.1f}")
    print(f"medians of {given.runs} processes")
    print(f"{'':34}{'wall, s':>9}{'CPU, s':>9}")
    for kind, times in taken.items():
        steps = np.array(times)  # runs, steps, clocks
        steps[:, 3] /= LATER
        for step, name in enumerate(("open, first in a process", "open again", "first answer", "later answers")):
            if kind == "checked" or step > 1:
                wall, cpu = (statistics.median(steps[:, step, clock]) for clock in (0, 1))
                print(f"{kind + ': ' + name:34}{wall:9.3f}{cpu:9.3f}")


if __name__ == "__main__":
    main()
