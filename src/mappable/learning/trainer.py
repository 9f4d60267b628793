"""Training: places and images become an encoder, in a folder from which a stopped run resumes."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
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
from mappable.features.whitening import fit_whitening
from mappable.interruption import held_back
from mappable.learning.changes import draw_changes
from mappable.learning.checkpoint import CHECKPOINT, Checkpoint
from mappable.learning.data import TrainingData, select
from mappable.learning.distributed import Group, joined
from mappable.learning.folder import look_into, prepare, tidy
from mappable.learning.learner import TERMS, Learner
from mappable.learning.metrics import Metrics, check_tensorboard
from mappable.learning.settings import Settings
from mappable.learning.start import begin
from mappable.learning.tuples import Sampler, Tuples
from mappable.locks import alone_in
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places
from mappable.progress import progress_bar
from mappable.randomness import Purpose, generator

# A step's numbers are sent to the host together with those of so many others, and read when so many further groups of
# them have been sent: whoever reads a number at once makes a GPU wait.
TOGETHER = {"cpu": 1, "cuda": 20}
LATER = {"cpu": 0, "cuda": 1}
STOPPING = "finishing this step and saving; once more, and it stops at once"
WHITENING_IMAGES = 5000  # that PCA-whitening is fitted to, at most


class TrainingStopped(MappableError):  # noqa: N818 - nothing went wrong
    """Somebody stopped the run; its text says at which iteration, and where that is saved."""


def train(
    places: Places,
    images: AnyImages,
    settings: Settings,
    *,
    out: Path | str | None = None,
    device: str = "auto",
    overwrite: bool = False,
    tensorboard: bool = False,
    activations: Path | str | None = None,
) -> Encoder:
    """An encoder that learned from the training split of `places`, with `images` (n, height, width, 3) in row order.

    `images` are an array, `PackedImages.view(places)`, or `places` again; then files are decoded at every use.

    With `out`, that folder gets the encoder, the settings and the metrics, and checkpoints on the way. If it holds a
    run with the same settings and images, training goes on from there to the very same weights; a run with others is
    refused, or replaced with `overwrite`. `activations` is a folder in which those of frozen layers
    (`trainable: conv5`) are kept for other runs. Under `torchrun` all processes train one encoder together.
    """
    chosen, folder = find_device(device), Path(out) if out is not None else None
    if folder is not None and tensorboard:
        check_tensorboard()
    with joined(chosen) as group, alone_in(folder, "training") if group.first and folder else nullcontext():
        if settings.anchors < group.size:
            raise BadInputError(f"anchors {settings.anchors} cannot be divided among {group.size} processes; raise it")
        pixels = images_of(images, settings.size, settings.fit)
        data = select(places, pixels, queries=settings.monitor_queries)
        sampler = Sampler(
            data.train,
            positive_radius=settings.positive_radius,
            negative_radius=settings.negative_radius,
            yaw_limit=settings.yaw_limit,
            seed=settings.seed,
            device=chosen,
            negatives=settings.negatives,
            other_runs=settings.positives_from == "other-runs",
        )
        _check(data, sampler, settings)
        if group.first:
            _say_skipped(sampler)
        fingerprint = data.fingerprint
        finished, checkpoint = None, None
        if folder is not None and not overwrite:
            finished, checkpoint = look_into(folder, settings, fingerprint)
        if finished is not None:
            group.wait()
            if group.first and folder is not None:
                tidy(folder)
            return finished.to(chosen)
        kept = Path(activations) if activations is not None else None
        advice = f"there is too little memory on {chosen} to begin: lower size (now {_size(settings)})"
        with out_of_memory_means(advice):
            learner = begin(data, settings, chosen, group, fingerprint, checkpoint, kept)
        if group.first and folder is not None:
            prepare(folder, settings, anew=checkpoint is None)
        with held_back(folder is not None, say=STOPPING) as interrupted:
            with out_of_memory_means(_too_little_memory(settings, chosen)):
                _Run(data, sampler, learner, settings, group, folder, interrupted).go(checkpoint, tensorboard)
            if group.first and folder is not None:
                learner.encoder.save(folder / ENCODER)
                tidy(folder)
        return learner.encoder


class _Sent:
    """The `terms` (steps, anchors, TERMS) of some steps on their way to the host."""

    def __init__(self, steps: list[tuple[int, Tuples]], terms: Tensor) -> None:
        self.steps, self._terms = steps, terms.to("cpu", non_blocking=terms.is_cuda)
        self._arrived = torch.cuda.current_stream(terms.device).record_event() if terms.is_cuda else None

    def read(self) -> Iterator[tuple[tuple[int, Tuples], Tensor]]:
        """Each step with its terms, as soon as all have arrived."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return zip(self.steps, self._terms, strict=True)


class _Run:
    """The loop: tuples fixed when a mining period begins, a step a batch, now and then a look and a checkpoint."""

    def __init__(
        self,
        data: TrainingData,
        sampler: Sampler,
        learner: Learner,
        settings: Settings,
        group: Group,
        folder: Path | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self.data, self.sampler, self.learner, self.settings = data, sampler, learner, settings
        self.group, self.folder, self.interrupted = group, folder, interrupted
        self.loss = settings.build_loss(learner.feature_scale_squared)
        self.total = iterations_of(settings, sampler)
        self.together, self.later = TOGETHER[learner.device.type], LATER[learner.device.type]
        self.iteration, self.saved = 0, 0  # steps done, and how many of them are safe
        self.saved_at = time.perf_counter()  # or begun
        self.seconds, self.since = 0.0, 0.0  # of training, until the moment `since`
        self.tuples: Tuples | None = None  # of the mining period under way, in the host's memory
        self.waiting: list[tuple[int, Tuples]] = []  # steps, by their iteration, whose numbers were not sent yet
        self.terms: list[Tensor] = []  # those numbers
        self.sent: deque[_Sent] = deque()  # those of the steps before, which were not read yet
        self.latest: Tensor = torch.zeros(0, 1, dtype=torch.int64)  # rows of the last step's tuples
        self.left_out = 0  # steps without a valid tuple
        self.note = ""  # below the progress bar
        self.monitor: Monitor | None = None
        if len(data.queries):
            radius = settings.positive_radius
            self.monitor = Monitor(data.train, data.queries, landmarks=settings.landmarks, radius=radius)

    def go(self, checkpoint: Checkpoint | None, tensorboard: bool) -> None:
        """From the beginning or the checkpoint to the end."""
        if checkpoint is not None:
            self.iteration, self.seconds = checkpoint.iteration, checkpoint.about["seconds"]
            self.saved = self.iteration
            if checkpoint.tuples:
                self.tuples = Tuples(**checkpoint.tuples, layout=self.loss.layout)
        folder = self.folder if self.group.first else None
        with (
            Metrics(folder, iteration=self.iteration, tensorboard=tensorboard) as self.metrics,
            progress_bar(f"training {self.settings.loss}", self.total) as self.advance,
        ):
            self.advance(self.iteration)
            self.since = time.perf_counter()
            if self.iteration == 0:
                self._watch()
            while self.iteration < self.total:
                if self.tuples is None:
                    self.tuples = self._checked(self._draw().cpu())
                self._take_steps(self.tuples)
            if self.left_out and self.group.first:
                lacking = "for none of their tuples has an other negative beyond the negative radius"
                print(f"{self.left_out:,} of {self.total:,} steps were left out, {lacking}", file=sys.stderr)
            self._finish()
            if self.total or self.settings.whitening is not None:
                self._watch()

    def _draw(self) -> Tuples:
        """The tuples of a mining period, with the hardest negatives for the encoder as it is now."""
        first = self.iteration
        last = min(first + self.settings.cache_every, self.total)
        period = first // self.settings.cache_every
        anchors = self.sampler.anchors(first, last, self.settings.anchors)
        layout = self.loss.layout
        if not layout.hard:
            return self.sampler.draw(anchors, layout, period)
        rows = self.sampler.cache_rows(anchors, self.settings.cache_size, period)
        advice = f"there is too little memory for {len(rows):,} cached descriptors: lower cache_size or cache_every"
        with out_of_memory_means(advice):
            tuples = self.sampler.draw(anchors, layout, period, rows, self.learner.describe(rows))
        for tensor in (tuples.rows, tuples.squared_distances, tuples.valid):
            self.group.from_first(tensor)
        return tuples

    def _checked(self, tuples: Tuples) -> Tuples:
        """The same; a run that would begin without a valid tuple is refused."""
        valid = tuples.valid
        if self.iteration == 0 and not valid.any():
            radius = f"{self.settings.negative_radius:g} {self.data.train.unit}"
            raise BadInputError(
                f"none of the first {len(valid):,} anchors has an other negative {radius} from it and its negatives, "
                f"as {self.settings.loss} wants: lower negative_radius or negatives, or take a triplet loss"
            )
        return tuples

    def _take_steps(self, tuples: Tuples) -> None:
        """The steps of a mining period that are not taken yet; a batch without any valid tuple is left out."""
        anchors = self.settings.anchors
        first = self.iteration % self.settings.cache_every * anchors
        starts = range(first, len(tuples.rows), anchors)
        parts = [tuples[start : start + anchors] for start in starts]
        usable = [bool(part.valid.any()) for part in parts]
        period = self.iteration // self.settings.cache_every
        drawn = draw_changes(self.settings, period, *tuples.rows.shape, device=self.learner.device)
        changes = None if drawn is None else [drawn[start : start + anchors] for start in compress(starts, usable)]
        with closing(self.learner.batches(list(compress(parts, usable)), changes)) as batches:
            for part, is_usable in zip(parts, usable, strict=True):
                self.iteration += 1
                if is_usable:
                    self.terms.append(self.learner.step(self.loss, next(batches), self.iteration))
                    self.waiting.append((self.iteration, part))
                    self.latest = part.rows
                else:
                    self.left_out += 1
                if self.iteration % self.settings.cache_every == 0:
                    self.tuples = None  # the next period's are drawn with the weights as they will be then
                self._after_step()
                self.advance(1, self.note)

    def _after_step(self) -> None:
        """Send, read and write numbers, look, save and stop, if it is time for any of these."""
        last, stopping = self.iteration == self.total, False
        due = self.iteration % self.settings.checkpoint_every == 0
        watching = self.settings.monitor_every and self.iteration % self.settings.monitor_every == 0
        if len(self.waiting) == self.together or due or watching or last:
            self._send()
            stopping = self.group.any(self.interrupted(), self.learner.device)
            self._read(left=0 if due or watching or last or stopping else self.later)
        if due or stopping or last:
            self._check_weights()
        if last:
            return
        if watching:
            self._watch()
        if self.folder is None:
            return
        if stopping or (due and time.perf_counter() - self.saved_at >= self.settings.checkpoint_seconds):
            self._save()
        if stopping:
            at = f"stopped at iteration {self.iteration:,} of {self.total:,}"
            raise TrainingStopped(f"{at}, which is saved in {self.folder}")

    def _finish(self) -> None:
        """Average and whiten, if wished; and say whether its distances were made to follow those in the world."""
        self.learner.finish()
        encoder, whitening = self.learner.encoder, self.settings.whitening
        if whitening is not None:
            order = generator(self.settings.seed, Purpose.WHITENING).permutation(len(self.data.train))
            encoder.whitening = fit_whitening(self.learner.describe(np.sort(order[:WHITENING_IMAGES])), whitening)
        proportional = self.loss.is_geometric and self.total > 0 and whitening is None
        encoder.about = replace(encoder.about, proportional=proportional)

    def _send(self) -> None:
        """Let the numbers of the last steps travel to the host; nobody waits for them."""
        if self.waiting:
            terms = self.group.gather(torch.stack(self.terms, 1), self.settings.anchors)  # (anchors, steps, terms)
            self.sent.append(_Sent(self.waiting, terms.transpose(0, 1)))
            self.waiting, self.terms = [], []

    def _read(self, left: int) -> None:
        """Write what was sent, but for the last `left` times; a loss that is no number stops the run."""
        arrived = [self.sent.popleft() for _ in range(len(self.sent) - left)]
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
            what = f"the loss became {float(terms[bad, 0])} at iteration {iteration:,}, on the tuple"
            raise self._diverged(what, tuples.rows[bad])
        means = terms[tuples.valid].mean(0)
        values = {name: float(value) for name, value in zip(("loss", *TERMS[1:]), means, strict=True)}
        self.metrics.write(iteration, **values, images_per_second=speed, seconds=self.seconds)
        texts = [f"{name} {values[name]:.4f}" for name in ("loss", "visual", "geometric")]
        self.note = f"{' · '.join(texts)} · active {100 * values['active']:.0f} % · {speed:,.0f} images/s"

    def _check_weights(self) -> None:
        """Weights that are no numbers stop the run before they are saved; the loss shows them one step too late."""
        finite = torch.stack([parameter.isfinite().all() for parameter in self.learner.encoder.parameters()])
        if not bool(finite.all()):
            what = (
                f"weights became infinite or no numbers at iteration {self.iteration:,}, on the tuples of the anchors"
            )
            raise self._diverged(what, self.latest[:, 0])

    def _diverged(self, what: str, rows: Tensor) -> BadInputError:
        """Which images the run failed on, and what is left of it."""
        images = ", ".join(self.data.train.place_id[rows.numpy()])
        kept = "nothing was saved before"
        if self.folder is not None and self.saved:
            kept = f"the checkpoint of iteration {self.saved:,} is kept in {self.folder}"
        advice = (
            f"look at these images, or lower learning_rate (now {self.settings.learning_rate:g}), and begin anew with "
            "--overwrite"
        )
        return BadInputError(f"{what} {images}; {kept}; {advice}")

    def _watch(self) -> None:
        """The monitor's accuracy, and the time that it takes left out of the training's."""
        if self.monitor is not None:
            accuracy = self.monitor.accuracy(self.learner.describe)
            self.metrics.write(self.iteration, accuracy=accuracy, radius=self.settings.positive_radius)
        self.since = time.perf_counter()

    def _save(self) -> None:
        if self.group.first and self.folder is not None:
            about = self.learner.encoder.about
            facts = {"settings": about.settings, "data": about.data, "encoder": about.to_json()}
            stored = {} if self.tuples is None else self.tuples.state()
            found = Checkpoint(self.iteration, self.learner.state(), stored, facts | {"seconds": self.seconds})
            found.save(self.folder / CHECKPOINT)
        self.saved = self.iteration
        self.saved_at = self.since = time.perf_counter()


def iterations_of(settings: Settings, sampler: Sampler) -> int:
    """The budget in iterations: as set, or as many epochs of whole batches; a batch of too many anchors is refused."""
    if settings.iterations == 0:
        return 0
    each = sampler.batches_per_epoch(settings.anchors)
    return settings.iterations or max(1, round((settings.epochs or 0.0) * each))


def _check(data: TrainingData, sampler: Sampler, settings: Settings) -> None:
    """Refuse at once what would otherwise come out after hours."""
    iterations_of(settings, sampler)
    most = min(len(data.train), WHITENING_IMAGES) - 1
    if settings.whitening is not None and settings.whitening > most:
        raise BadInputError(f"whitening is {settings.whitening}, but {most + 1:,} images allow for {most:,} at most")


def _too_little_memory(settings: Settings, device: torch.device) -> str:
    at_once = settings.micro_batch or settings.anchors
    lower = "micro_batch" if at_once > 1 else "size"
    now = _size(settings) if lower == "size" else at_once
    return f"there is too little memory on {device} for {at_once} anchors at once: lower {lower} (now {now})"


def _size(settings: Settings) -> str:
    return "x".join(map(str, settings.size))


def _say_skipped(sampler: Sampler) -> None:
    for rows, lacking in (
        (sampler.skipped_without_positives, "another one within the positive radius"),
        (sampler.skipped_without_negatives, "enough others beyond the negative radius"),
    ):
        if len(rows):
            first = ", ".join(sampler.places.place_id[rows[:3]]) + (", ..." if len(rows) > 3 else "")
            print(
                f"{len(rows):,} of {len(sampler):,} places are no anchors, for they lack {lacking}: {first}",
                file=sys.stderr,
            )
