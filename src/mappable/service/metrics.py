"""Counters of the server, in Prometheus text format."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from threading import Lock

SECONDS_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCH_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # images
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """The number of values at or below each bound."""

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
    """All counters; any thread may add to them.

    `gauges` maps a name and a help text to a function, which is called whenever the metrics are
    read.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[Labels] = Counter()
        self._errors: Counter[Labels] = Counter()
        self._latency: dict[str, Histogram] = {}
        self._batches = Histogram(BATCH_BOUNDS)
        self.gauges: Mapping[tuple[str, str], Callable[[], float]] = {}

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request; `path` is that of the route, not of the request."""
        with self._lock:
            self._requests[(("path", path), ("status", str(status)))] += 1
            self._latency.setdefault(path, Histogram(SECONDS_BOUNDS)).add(seconds)

    def error(self, reason: str) -> None:
        """Count a failed request, or a failed image of a request."""
        with self._lock:
            self._errors[(("reason", reason),)] += 1

    def batch(self, images: int) -> None:
        """Count a batch of this many images."""
        with self._lock:
            self._batches.add(images)

    def text(self) -> str:
        """All metrics in the text format of Prometheus."""
        with self._lock:
            lines = [
                *_counter("mappable_requests_total", "Requests answered.", self._requests),
                *_counter(
                    "mappable_errors_total", "Failed requests or images, by reason.", self._errors
                ),
                *_heading(
                    "mappable_request_seconds",
                    "Seconds from the headers to the response.",
                    "histogram",
                ),
                *(
                    line
                    for path, one in self._latency.items()
                    for line in one.lines(*_of_path(path))
                ),
                *_heading("mappable_batch_images", "Images per batch of the encoder.", "histogram"),
                *self._batches.lines("mappable_batch_images"),
            ]
        for (name, about), value in self.gauges.items():
            lines += [*_heading(name, about, "gauge"), f"{name} {value():g}"]
        return "\n".join(lines) + "\n"


def _of_path(path: str) -> tuple[str, Labels]:
    return "mappable_request_seconds", (("path", path),)


def _counter(name: str, about: str, counts: Counter[Labels]) -> list[str]:
    return [
        *_heading(name, about, "counter"),
        *(f"{name}{_braced(labels)} {n}" for labels, n in counts.items()),
    ]


def _heading(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _braced(labels: Labels) -> str:
    """The labels in braces. All names and values come from this package, so none needs escaping."""
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""
