"""Counters of the server, in Prometheus text format."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from threading import Lock

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
IMAGES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How many values were at most as large as each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[sum(value > bound for bound in self.bounds)] += 1
        self.sum += value

    def lines(self, name: str, labels: Labels = ()) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            yield f"{name}_bucket{_braced((*labels, ('le', bound)))} {total}"
        yield f"{name}_sum{_braced(labels)} {self.sum:.6f}"
        yield f"{name}_count{_braced(labels)} {total}"


class Metrics:
    """All counts; any thread may add to them. `gauges` are asked when somebody looks, by their name and help."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[Labels] = Counter()
        self._errors: Counter[Labels] = Counter()
        self._latency: dict[str, Histogram] = {}
        self._batches = Histogram(IMAGES)
        self.gauges: Mapping[tuple[str, str], Callable[[], float]] = {}

    def request(self, path: str, status: int, seconds: float) -> None:
        """One was answered; `path` is that of the route, not of the request."""
        with self._lock:
            self._requests[(("path", path), ("status", str(status)))] += 1
            self._latency.setdefault(path, Histogram(SECONDS)).add(seconds)

    def error(self, reason: str) -> None:
        """A request, or one of its images, was refused."""
        with self._lock:
            self._errors[(("reason", reason),)] += 1

    def batch(self, images: int) -> None:
        """So many images went through the encoder together."""
        with self._lock:
            self._batches.add(images)

    def text(self) -> str:
        """All of it."""
        with self._lock:
            lines = [
                *_counter("mappable_requests_total", "Requests answered.", self._requests),
                *_counter("mappable_errors_total", "Requests or images refused, by reason.", self._errors),
                *_heading("mappable_request_seconds", "Time from a request's head to its answer.", "histogram"),
                *(line for path, one in self._latency.items() for line in one.lines(*_of_path(path))),
                *_heading("mappable_batch_images", "Images that the encoder took at a time.", "histogram"),
                *self._batches.lines("mappable_batch_images"),
            ]
        for (name, about), value in self.gauges.items():
            lines += [*_heading(name, about, "gauge"), f"{name} {value():g}"]
        return "\n".join(lines) + "\n"


def _of_path(path: str) -> tuple[str, Labels]:
    return "mappable_request_seconds", (("path", path),)


def _counter(name: str, about: str, counts: Counter[Labels]) -> list[str]:
    return [*_heading(name, about, "counter"), *(f"{name}{_braced(labels)} {n}" for labels, n in counts.items())]


def _heading(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _braced(labels: Labels) -> str:
    """Names and values are our own, so there is nothing in them to escape."""
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""
