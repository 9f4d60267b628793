"""Train an encoder on places and images, in a folder from which a stopped run resumes."""

import math
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mappable.errors import BadInputError, MappableError
from mappable.features.devices import find_device
from mappable.features.embedding import out_of_memory_means
from mappable.features.encoder import Encoder
from mappable.features.files import ENCODER
from mappable.features.monitor import Monitor
from mappable.interruption import held_back
from mappable.learning.changes import draw_changes
from mappable.learning.checkpoint import CHECKPOINT, Checkpoint
from mappable.learning.data import TrainingData, select
from mappable.learning.distributed import Group, joined
from mappable.learning.folder import ended_before, look_into, prepare, remove_checkpoint
from mappable.learning.learner import TERMS, Learner
from mappable.learning.metrics import Metrics
from mappable.learning.settings import Settings
from mappable.learning.start import start_learner
from mappable.learning.tuples import Sampler, Tuples
from mappable.locks import alone_in
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places
from mappable.progress import progress_bar

# Loss terms go from the GPU to the host in groups of steps. A group is read only after some more
# groups have been sent, because reading a number at once would make the GPU wait.
STEPS_PER_GROUP = {"cpu": 1, "cuda": 20}
GROUPS_IN_FLIGHT = {"cpu": 0, "cuda": 1}
SECONDS_BETWEEN_CHECKPOINTS = 10.0  # at least; each has the weights and both averages of Adam
MONITOR_QUERIES = 500  # at most; 500 give a share with a standard error of 2 points
STOPPING = "finishing this step and saving; a second Ctrl-C stops at once"


class TrainingStopped(MappableError):  # noqa: N818 - nothing went wrong
    """The user stopped the run. The message names the iteration and the folder where it is saved."""


def train(
    places: Places,
    images: AnyImages,
    settings: Settings,
    *,
    out: Path | str | None = None,
    device: str = "auto",
    overwrite: bool = False,
    activations: Path | str | None = None,
    minutes: float = math.inf,
) -> Encoder:
    """Train an encoder on the training split of `places`, with `images` (n, height, width, 3) in
    row order.

    `images` is an array, `PackedImages.view(places)`, or `places` itself; then image files are
    decoded at every use.

    The folder `out` gets the encoder, the settings, the metrics, and checkpoints during training.
    If it contains a run with the same settings and images, training resumes and gives exactly the
    same weights. A run with other settings or images is an error, unless `overwrite` replaces it.

    `activations` is a folder that keeps the activations of frozen layers (`trainable: last`) for
    other runs. Under `torchrun`, all processes train one encoder together.

    `minutes` is a deadline, measured while training runs. The steps of earlier parts of the run
    count. At the deadline, training ends with the steps that it has taken, whose number
    `encoder.about.settings["iterations"]` records. A later call with more minutes continues. If the
    time runs out before the first step, an error says so.
    """
    until = time.perf_counter() + 60 * minutes
    chosen, folder = find_device(device), Path(out) if out is not None else None
    with (
        joined(chosen) as group,
        alone_in(folder, "training") if group.first and folder else nullcontext(),
    ):
        if settings.anchors < group.size:
            raise BadInputError(
                f"anchors is {settings.anchors}, expected at least one per process ({group.size}"
                " processes)"
            )
        pixels = images_of(images, settings.size, settings.fit)
        data = select(places, pixels, queries=MONITOR_QUERIES if settings.landmarks else 0)
        sampler = Sampler(
            data.train,
            positive_radius=settings.positive_radius,
            negative_radius=settings.negative_radius,
            yaw_limit=settings.yaw_limit,
            seed=settings.seed,
            device=chosen,
            negatives=settings.negatives,
            other_runs=settings.positives_from == "other-runs",
            may_be_empty=settings.iterations == 0,
        )
        # Raises now for what would otherwise appear after a long start.
        iterations_of(settings, sampler)
        if group.first and settings.iterations != 0:
            _print_skipped(sampler)
        fingerprint = data.fingerprint
        finished, checkpoint = None, None
        if folder is not None and not overwrite:
            finished, checkpoint = look_into(folder, settings, fingerprint)
        if checkpoint is not None and folder is not None:
            until -= checkpoint.about["seconds"]
            finished = ended_before(folder, checkpoint) if minutes == 0 else None
        iteration = checkpoint.iteration if checkpoint else 0
        if not group.agrees(f"{fingerprint} {iteration} {finished is not None}", chosen):
            raise BadInputError(
                "processes found different images or checkpoints; every machine needs the same"
                " PLACES and OUT under the same paths"
            )
        if finished is not None:
            group.wait()
            if group.first and folder is not None and checkpoint is None:
                remove_checkpoint(folder)
            return finished.to(chosen)
        cache = Path(activations) if activations is not None else None
        advice = (
            f"not enough memory on {chosen} to start training; lower size (now {_size(settings)})"
        )
        with out_of_memory_means(advice), _alarm(until - time.perf_counter(), group):
            learner = start_learner(data, settings, chosen, group, fingerprint, checkpoint, cache)
        if group.first and folder is not None:
            prepare(folder, settings, anew=checkpoint is None)
        with held_back(folder is not None, say=STOPPING) as interrupted:
            with out_of_memory_means(
                f"not enough memory on {chosen}; lower size (now {_size(settings)})"
            ):
                run = _Run(data, sampler, learner, settings, group, folder, interrupted, until)
                run.go(checkpoint)
            if group.first and folder is not None:
                learner.encoder.save(folder / ENCODER)
                if not run.late:
                    remove_checkpoint(folder)
        return learner.encoder


class OutOfTimeError(MappableError):
    """The time ran out before the first step."""


class _Sent:
    """The `terms` (steps, anchors, TERMS) of some steps, which are being copied to the host."""

    def __init__(self, steps: list[tuple[int, Tuples]], terms: Tensor) -> None:
        self.steps, self._terms = steps, terms.to("cpu", non_blocking=terms.is_cuda)
        self._arrived = (
            torch.cuda.current_stream(terms.device).record_event() if terms.is_cuda else None
        )

    def read(self) -> Iterator[tuple[tuple[int, Tuples], Tensor]]:
        """Wait for the copy, then return each step with its terms."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return zip(self.steps, self._terms, strict=True)


class _Run:
    """The training loop: draw tuples at the start of a mining period, take one step per batch,
    monitor, and save.
    """

    def __init__(
        self,
        data: TrainingData,
        sampler: Sampler,
        learner: Learner,
        settings: Settings,
        group: Group,
        folder: Path | None,
        interrupted: Callable[[], bool],
        until: float,
    ) -> None:
        self.data, self.sampler, self.learner, self.settings = data, sampler, learner, settings
        self.group, self.folder, self.interrupted = group, folder, interrupted
        self.until, self.late = until, False  # when to stop, and whether the run has stopped then
        # Without steps, F² is not needed, and may be unknown.
        self.loss = settings.build_loss(
            1.0 if settings.iterations == 0 else learner.feature_scale_squared
        )
        self.total = iterations_of(settings, sampler)
        self.steps_per_group = STEPS_PER_GROUP[learner.device.type]
        self.groups_in_flight = GROUPS_IN_FLIGHT[learner.device.type]
        self.iteration, self.saved = 0, 0  # steps done, and steps done at the last checkpoint
        self.saved_at = time.perf_counter()  # time of the last checkpoint, or of the start
        self.seconds, self.since = 0.0, 0.0  # training time up to the moment `since`
        self.tuples: Tuples | None = None  # of the current mining period, in the host's memory
        # Iteration and tuples of steps whose terms were not sent yet.
        self.unsent: list[tuple[int, Tuples]] = []
        self.terms: list[Tensor] = []  # terms of the unsent steps
        self.sent: deque[_Sent] = deque()  # terms of earlier steps that were not read yet
        self.latest: Tensor = torch.zeros(0, 1, dtype=torch.int64)  # rows of the last step's tuples
        self.skipped = 0  # steps without a valid tuple
        self.note = ""  # text below the progress bar
        self.monitor: Monitor | None = None
        # Of its latest run; the last run is after the deadline otherwise.
        self.monitor_seconds = 0.0
        if len(data.queries):
            radius = settings.positive_radius
            self.monitor = Monitor(
                data.train, data.queries, landmarks=settings.landmarks, radius=radius
            )

    def go(self, checkpoint: Checkpoint | None) -> None:
        """Run from the start, or from the checkpoint, to the end."""
        if checkpoint is not None:
            self.iteration, self.seconds = checkpoint.iteration, checkpoint.about["seconds"]
            self.saved = self.iteration
            if checkpoint.tuples:
                self.tuples = Tuples(**checkpoint.tuples, layout=self.loss.layout)
        folder = self.folder if self.group.first else None
        with (
            Metrics(folder, iteration=self.iteration) as self.metrics,
            progress_bar(f"training {self.settings.loss}", self.total) as self.advance,
        ):
            self.advance(self.iteration)
            self.since = time.perf_counter()
            if self.iteration == 0:
                self._run_monitor()
            while self.iteration < self.total:
                if self.tuples is None:
                    self.tuples = self._checked(self._draw().cpu())
                self._take_steps(self.tuples)
            if self.skipped and self.group.first:
                reason = "because no tuple has a second negative beyond the negative radius"
                print(f"skipped {self.skipped:,} of {self.total:,} steps {reason}", file=sys.stderr)
            self._finish()
            if self.total or self.settings.dimensions is not None:
                self._run_monitor()

    def _draw(self) -> Tuples:
        """Draw the tuples of a mining period, with the hardest negatives for the current weights."""
        first = self.iteration
        last = min(first + self.settings.cache_every, self.total)
        period = first // self.settings.cache_every
        anchors = self.sampler.anchors(first, last, self.settings.anchors)
        layout = self.loss.layout
        if not layout.hard:
            return self.sampler.draw(anchors, layout, period)
        share = self.group.share(len(anchors))
        rows = self.sampler.cache_rows(anchors, self.settings.cache_size, period)
        advice = (
            f"not enough memory for {len(rows):,} cached descriptors; lower cache_size or"
            " cache_every"
        )
        with out_of_memory_means(advice):
            part = self.sampler.draw(
                anchors, layout, period, rows, self.learner.describe(rows), share
            )
        whole = {
            name: self.group.gather(tensor, len(anchors)) for name, tensor in part.state().items()
        }
        return Tuples(**whole, layout=layout)

    def _checked(self, tuples: Tuples) -> Tuples:
        """Return the tuples. Raise if the first mining period has no valid tuple."""
        valid = tuples.valid
        if self.iteration == 0 and not valid.any():
            radius = f"{self.settings.negative_radius:g} {self.data.train.unit}"
            raise BadInputError(
                f"{self.settings.loss}: none of the first {len(valid):,} anchors has an other"
                f" negative {radius} from it and its negatives; lower negative_radius or negatives,"
                " or use triplets"
            )
        return tuples

    def _take_steps(self, tuples: Tuples) -> None:
        """Take the remaining steps of a mining period. A batch without a valid tuple is skipped."""
        anchors = self.settings.anchors
        first = self.iteration % self.settings.cache_every * anchors
        starts = range(first, len(tuples.rows), anchors)
        parts = [tuples[start : start + anchors] for start in starts]
        usable = [bool(part.valid.any()) for part in parts]
        period = self.iteration // self.settings.cache_every
        drawn = draw_changes(self.settings, period, *tuples.rows.shape, device=self.learner.device)
        changes = (
            None
            if drawn is None
            else [drawn[start : start + anchors] for start in compress(starts, usable)]
        )
        with closing(self.learner.batches(list(compress(parts, usable)), changes)) as batches:
            for part, is_usable in zip(parts, usable, strict=True):
                if self.late:
                    return
                self.iteration += 1
                if is_usable:
                    self.terms.append(self.learner.step(self.loss, next(batches), self.iteration))
                    self.unsent.append((self.iteration, part))
                    self.latest = part.rows
                else:
                    self.skipped += 1
                if self.iteration % self.settings.cache_every == 0:
                    # The next mining period draws new ones with the weights after this step.
                    self.tuples = None
                self._after_step()
                self.advance(1, self.note)

    def _after_step(self) -> None:
        """Send and write metrics, run the monitor, save, and stop, each when it is due."""
        last, ending, stopping = self.iteration == self.total, False, False
        checkpoint_due = self.iteration % self.settings.checkpoint_every == 0
        monitor_due = (
            self.settings.monitor_every and self.iteration % self.settings.monitor_every == 0
        )
        if len(self.unsent) == self.steps_per_group or checkpoint_due or monitor_due or last:
            self._send()
            late = time.perf_counter() + self.monitor_seconds >= self.until
            ending = self.group.any(late or self.interrupted(), self.learner.device)
            stopping = ending and self.group.any(self.interrupted(), self.learner.device)
            self._read(
                keep=0 if checkpoint_due or monitor_due or last or ending else self.groups_in_flight
            )
        if checkpoint_due or ending or last:
            self._check_weights()
        if last:
            return
        if monitor_due:
            self._run_monitor()
        due = checkpoint_due and time.perf_counter() - self.saved_at >= SECONDS_BETWEEN_CHECKPOINTS
        if self.folder is not None and (ending or due):
            self._save()
        if stopping:
            stop = f"stopped at iteration {self.iteration:,} of {self.total:,}"
            raise TrainingStopped(f"{stop}, which is saved in {self.folder}")
        if ending:
            self.late, self.total = True, self.iteration

    def _finish(self) -> None:
        """Average and reduce, if set. Record whether feature distances were trained to follow those
        in the world.
        """
        self.learner.finish()
        encoder, settings = self.learner.encoder, self.settings
        encoder.about = replace(
            encoder.about, proportional=self.loss.is_geometric and self.total > 0
        )
        if self.late:
            taken = {"iterations": self.iteration, "epochs": None}
            encoder.about = replace(encoder.about, settings=dict(encoder.about.settings) | taken)
        if settings.dimensions is not None:
            describe = partial(self.learner.describe, title="descriptors for the reduction")
            encoder.reduce_by(
                describe,
                len(self.data.train),
                dimensions=settings.dimensions,
                seed=settings.seed,
            )
            for tensor in [] if encoder.reduction is None else encoder.reduction.buffers():
                self.group.from_first(tensor)

    def _send(self) -> None:
        """Start to copy the terms of the last steps to the host, without waiting for the copy."""
        if self.unsent:
            # (anchors, steps, terms)
            terms = self.group.gather(torch.stack(self.terms, 1), self.settings.anchors)
            self.sent.append(_Sent(self.unsent, terms.transpose(0, 1)))
            self.unsent, self.terms = [], []

    def _read(self, keep: int) -> None:
        """Write the metrics of all sent groups but the last `keep`. A loss that is not finite stops
        the run.
        """
        arrived = [self.sent.popleft() for _ in range(len(self.sent) - keep)]
        steps = [step for sent in arrived for step in sent.read()]
        if not steps:
            return
        now = time.perf_counter()
        elapsed, self.since = now - self.since, now
        self.seconds += elapsed
        speed = len(steps) * self.settings.anchors * self.loss.layout.images / elapsed
        for (iteration, tuples), terms in steps:
            self._report(iteration, tuples, terms, speed)

    def _report(self, iteration: int, tuples: Tuples, terms: Tensor, speed: float) -> None:
        if not terms.isfinite().all():
            bad = int(np.flatnonzero(~terms.isfinite().all(-1).numpy())[0])
            problem = (
                f"the loss became {float(terms[bad, 0])} at iteration {iteration:,}, on the tuple"
            )
            raise self._diverged(problem, tuples.rows[bad])
        means = terms[tuples.valid].mean(0)
        values = {
            name: float(value) for name, value in zip(("loss", *TERMS[1:]), means, strict=True)
        }
        self.metrics.write(iteration, **values, images_per_second=speed, seconds=self.seconds)
        texts = [f"{name} {values[name]:.4f}" for name in ("loss", "visual", "geometric")]
        self.note = (
            f"{' · '.join(texts)} · active {100 * values['active']:.0f} % · {speed:,.0f} images/s"
        )

    def _check_weights(self) -> None:
        """Raise if a weight is infinite or NaN, before it is saved. The loss would show this one
        step too late.
        """
        finite = torch.stack(
            [parameter.isfinite().all() for parameter in self.learner.encoder.parameters()]
        )
        if not bool(finite.all()):
            problem = (
                f"weights became infinite or NaN at iteration {self.iteration:,}, on the tuples of"
                " the anchors"
            )
            raise self._diverged(problem, self.latest[:, 0])

    def _diverged(self, problem: str, rows: Tensor) -> BadInputError:
        """Error that names the images on which the run failed, and the last checkpoint."""
        images = ", ".join(self.data.train.place_id[rows.numpy()])
        kept = "nothing was saved before"
        if self.folder is not None and self.saved:
            kept = f"the checkpoint of iteration {self.saved:,} is kept in {self.folder}"
        advice = (
            f"check these images, or lower learning_rate (now {self.settings.learning_rate:g}), and"
            " start again with --overwrite"
        )
        return BadInputError(f"{problem} {images}; {kept}; {advice}")

    def _run_monitor(self) -> None:
        """Write the monitor's accuracy. Its time does not count as training time."""
        if self.monitor is not None:
            began = time.perf_counter()
            accuracy = self.monitor.accuracy(self.learner.describe)
            self.monitor_seconds = time.perf_counter() - began
            self.metrics.write(
                self.iteration, accuracy=accuracy, radius=self.settings.positive_radius
            )
        self.since = time.perf_counter()

    def _save(self) -> None:
        if self.group.first and self.folder is not None:
            about = self.learner.encoder.about
            facts = {"settings": about.settings, "data": about.data, "encoder": about.to_json()}
            tuples = {} if self.tuples is None else self.tuples.state()
            checkpoint = Checkpoint(
                self.iteration, self.learner.state(), tuples, facts | {"seconds": self.seconds}
            )
            checkpoint.save(self.folder / CHECKPOINT)
        self.saved = self.iteration
        self.saved_at = self.since = time.perf_counter()


@contextmanager
def _alarm(seconds: float, group: Group) -> Iterator[None]:
    """Raise OutOfTimeError if the context is not left in time. Only the main thread of one process
    can be woken up.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if (
        math.isinf(seconds)
        or group.size > 1
        or not in_main_thread
        or not hasattr(signal, "SIGALRM")
    ):
        yield
        return

    def ring(*_: object) -> None:
        raise OutOfTimeError(
            "the time ran out before the first training step; more --minutes continue"
        )

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def iterations_of(settings: Settings, sampler: Sampler) -> int:
    """Number of training steps: `iterations`, or `epochs` of whole batches. Raise if a batch needs
    too many anchors.
    """
    if settings.iterations == 0:
        return 0
    batches = sampler.batches_per_epoch(settings.anchors)
    return settings.iterations or max(1, round((settings.epochs or 0.0) * batches))


def _size(settings: Settings) -> str:
    return "x".join(map(str, settings.size))


def _print_skipped(sampler: Sampler) -> None:
    """Print how many places cannot be anchors, why, and the first three of them."""
    for rows, reason in (
        (sampler.skipped_without_positives, "no other place is within the positive radius"),
        (sampler.skipped_without_negatives, "too few places are beyond the negative radius"),
    ):
        if len(rows):
            first = ", ".join(sampler.places.place_id[rows[:3]]) + (
                ", ..." if len(rows) > 3 else ""
            )
            print(
                f"{len(rows):,} of {len(sampler):,} places cannot be anchors because {reason}:"
                f" {first}",
                file=sys.stderr,
            )
