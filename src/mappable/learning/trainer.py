"""Training: places and their images become an encoder, in a folder from which a stopped run goes on."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.errors import BadInputError, MappableError
from mappable.features.embedding import out_of_memory_means
from mappable.features.encoder import Encoder
from mappable.features.whitening import fit_whitening
from mappable.learning.checkpoint import CHECKPOINT, Checkpoint
from mappable.learning.data import TrainingData, select
from mappable.learning.distributed import Group, find_device, joined
from mappable.learning.folder import ENCODER, look_into, prepare
from mappable.learning.interruption import held_back
from mappable.learning.learner import TERMS, Learner
from mappable.learning.metrics import Metrics
from mappable.learning.monitor import Monitor
from mappable.learning.settings import Settings
from mappable.learning.start import begin
from mappable.learning.tuples import Sampler, Tuples
from mappable.places.cache import ImageRows
from mappable.places.table import Places
from mappable.progress import progress_bar

WHITENING_IMAGES = 5000  # that PCA-whitening is fitted to, at most
WHITENING = 4  # the stream of random numbers that chooses them


class TrainingStopped(MappableError):  # noqa: N818 - nothing went wrong
    """Somebody stopped the run; its text says where it was saved and how to go on."""


def train(
    places: Places,
    images: Pixels | ImageRows,
    settings: Settings,
    *,
    out: Path | str | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    tensorboard: bool = False,
    activations: Path | str | None = None,
) -> Encoder:
    """An encoder that learned from the training split of `places`; `images` (n, height, width, 3) are in row order.

    With `out`, that folder gets the encoder, the settings and the metrics, and checkpoints on the way, from which
    `resume` goes on to the very same weights. `activations` is a folder in which those of frozen layers
    (`trainable: conv5`) are kept for other runs. Under `torchrun` all processes train one encoder together.
    """
    if resume and overwrite:
        raise BadInputError("--resume goes on with a run, --overwrite begins it anew: give one of them")
    chosen, folder = find_device(device), Path(out) if out is not None else None
    with joined(chosen) as group:
        if settings.anchors < group.size:
            raise BadInputError(f"anchors {settings.anchors} cannot be divided among {group.size} processes; raise it")
        data = select(places, images, queries=settings.monitor_queries)
        sampler = Sampler(
            data.train,
            positive_radius=settings.positive_radius,
            negative_radius=settings.negative_radius,
            yaw_limit=settings.yaw_limit,
            seed=settings.seed,
            device=chosen,
            negatives=settings.negatives,
        )
        _check(data, sampler, settings)
        if group.first:
            _say_skipped(sampler)
        fingerprint = data.fingerprint
        checkpoint = None
        if folder is not None:
            finished, checkpoint = look_into(folder, settings, fingerprint, resume, overwrite)
            group.wait()
            if finished is not None:
                return finished.to(chosen)
            if group.first:
                prepare(folder, settings)
        kept = Path(activations) if activations is not None else None
        with out_of_memory_means(
            f"there is too little memory on {chosen} to begin: lower size (now {_size(settings)})"
        ):
            learner = begin(data, settings, chosen, group, fingerprint, checkpoint, kept)
        with held_back(folder is not None) as interrupted:
            with out_of_memory_means(_too_little_memory(settings, chosen)):
                _Run(data, sampler, learner, settings, group, folder, interrupted).go(checkpoint, tensorboard)
            if settings.whitening is not None:
                descriptors = learner.describe(_whitening_rows(len(data.train), settings.seed))
                learner.encoder.whitening = fit_whitening(descriptors, settings.whitening)
            if group.first and folder is not None:
                learner.encoder.save(folder / ENCODER)
                (folder / CHECKPOINT).unlink(missing_ok=True)
        return learner.encoder


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
        self.flush_every = 20 if learner.device.type == "cuda" else 1  # reading a number makes the GPU wait
        self.seconds, self.saved = 0.0, 0
        self.waiting: list[tuple[int, Tensor, Tuples]] = []
        self.monitor: Monitor | None = None
        if len(data.queries):
            radius = settings.positive_radius
            self.monitor = Monitor(data.train, data.queries, landmarks=settings.landmarks, radius=radius)

    def go(self, checkpoint: Checkpoint | None, tensorboard: bool) -> None:
        """From the beginning or the checkpoint to the end."""
        iteration, tuples = 0, None  # of the mining period under way
        if checkpoint is not None:
            iteration, self.seconds = checkpoint.iteration, checkpoint.about["seconds"]
            if checkpoint.tuples:
                on_device = {name: tensor.to(self.learner.device) for name, tensor in checkpoint.tuples.items()}
                tuples = Tuples(**on_device, layout=self.loss.layout)
        folder = self.folder if self.group.first else None
        title = f"training {self.settings.loss}"
        with (
            Metrics(folder, iteration=iteration, tensorboard=tensorboard) as self.metrics,
            progress_bar(title, self.total, shown=self.group.first) as self.advance,
        ):
            self.saved, self.started = iteration, time.perf_counter()
            self.advance(iteration)
            if iteration == 0:
                self._watch(0)
            while iteration < self.total:
                period, within = divmod(iteration, self.settings.cache_every)
                if tuples is None:
                    tuples = self._refresh(period)
                first = within * self.settings.anchors
                batch = tuples[first : first + self.settings.anchors]
                self.waiting.append((iteration + 1, self.learner.step(self.loss, batch), batch))
                iteration += 1
                if iteration % self.settings.cache_every == 0:
                    tuples = None  # the next period's are drawn with the weights as they will be then
                due = iteration % self.settings.checkpoint_every == 0
                stopping = False
                if len(self.waiting) == self.flush_every or due or iteration == self.total:
                    self._flush()
                    stopping = self.group.any(self.interrupted(), self.learner.device)
                if due or stopping or iteration == self.total:
                    self._check_weights(iteration, batch)
                if (
                    self.settings.monitor_every
                    and iteration % self.settings.monitor_every == 0
                    and iteration < self.total
                ):
                    self._watch(iteration)
                if self.folder is not None and iteration < self.total and (due or stopping):
                    self._save(iteration, tuples)
                if stopping and iteration < self.total:
                    at = f"stopped at iteration {iteration:,} of {self.total:,}, which is saved in {self.folder}"
                    raise TrainingStopped(f"{at}; go on with the same command and --resume")
            if self.total:
                self._watch(self.total)

    def _refresh(self, period: int) -> Tuples:
        """The tuples of a mining period, with the hardest negatives for the encoder as it is now (section 3.3)."""
        first = period * self.settings.cache_every
        last = min(first + self.settings.cache_every, self.total)
        anchors = self.sampler.anchors(first, last, self.settings.anchors)
        layout = self.loss.layout
        if not layout.hard:
            return self.sampler.draw(anchors, layout, period)
        rows = self.sampler.cache_rows(anchors, self.settings.cache_size, period)
        tuples = self.sampler.draw(anchors, layout, period, rows, self.learner.describe(rows))
        for tensor in (tuples.rows, tuples.squared_distances, tuples.valid):
            self.group.from_first(tensor)
        return tuples

    def _flush(self) -> None:
        """Write what the last steps reported; a loss that is no number stops the run."""
        steps = torch.stack([terms for _, terms, _ in self.waiting], 1)  # (own anchors, steps, terms)
        terms = self.group.gather(steps, self.settings.anchors).transpose(0, 1).cpu()
        now = time.perf_counter()
        elapsed, self.started = now - self.started, now
        self.seconds += elapsed
        speed = len(self.waiting) * self.settings.anchors * self.loss.layout.images / elapsed
        for (iteration, _, batch), of_step in zip(self.waiting, terms, strict=True):
            if not of_step.isfinite().all():
                bad = int(np.flatnonzero(~of_step.isfinite().all(-1).numpy())[0])
                what = f"the loss became {float(of_step[bad, 0])} at iteration {iteration:,}, on the tuple"
                raise self._diverged(what, batch.rows[bad])
            means = of_step[batch.valid.cpu()].mean(0) if batch.valid.any() else of_step.mean(0)
            values = {name: float(value) for name, value in zip(TERMS, means, strict=True)}
            self.metrics.write(iteration, **values, images_per_second=speed, seconds=self.seconds)
            texts = [f"{name} {values[name]:.4f}" for name in ("loss", "visual", "geometric")]
            self.advance(1, f"{' · '.join(texts)} · active {100 * values['active']:.0f} % · {speed:,.0f} images/s")
        self.waiting = []

    def _check_weights(self, iteration: int, batch: Tuples) -> None:
        """Weights that are no numbers stop the run before they are saved; the loss shows them one step too late."""
        if not all(bool(parameter.isfinite().all()) for parameter in self.learner.encoder.parameters()):
            what = f"weights became infinite or no numbers at iteration {iteration:,}, on the tuples of the anchors"
            raise self._diverged(what, batch.rows[:, 0])

    def _diverged(self, what: str, rows: Tensor) -> BadInputError:
        """Which images the run failed on, and what is left of it."""
        images = ", ".join(self.data.train.place_id[rows.cpu().numpy()])
        kept = "nothing was saved before"
        if self.folder is not None and self.saved:
            kept = f"the checkpoint of iteration {self.saved:,} is kept in {self.folder}"
        advice = f"look at these images, or lower the learning rate ({self.settings.learning_rate:g})"
        return BadInputError(f"{what} {images}; {kept}; {advice}")

    def _watch(self, iteration: int) -> None:
        """The monitor's accuracy, and the time that it takes left out of the training's."""
        if self.monitor is not None:
            accuracy = self.monitor.accuracy(self.learner.describe)
            self.metrics.write(iteration, accuracy=accuracy, radius=self.settings.positive_radius)
        self.started = time.perf_counter()

    def _save(self, iteration: int, tuples: Tuples | None) -> None:
        if self.group.first and self.folder is not None:
            about = self.learner.encoder.about
            facts = {
                "settings": about.settings,
                "data": about.data,
                "seconds": self.seconds,
                "encoder": about.to_json(),
            }
            stored = {} if tuples is None else tuples.state()
            Checkpoint(iteration, self.learner.state(), stored, facts).save(self.folder / CHECKPOINT)
        self.saved = iteration
        self.started = time.perf_counter()


def iterations_of(settings: Settings, sampler: Sampler) -> int:
    """The budget in iterations: as set, or as many epochs of whole batches; a batch of too many anchors is refused."""
    if settings.iterations == 0:
        return 0
    each = sampler.batches_per_epoch(settings.anchors)
    return settings.iterations or round((settings.epochs or 0.0) * each)


def _check(data: TrainingData, sampler: Sampler, settings: Settings) -> None:
    """Refuse at once what would otherwise come out after hours."""
    iterations_of(settings, sampler)
    height, width = data.images.shape[1:3]
    if (width, height) != tuple(settings.size):
        raise BadInputError(f"the images are {width}x{height}, but the setting size is {_size(settings)}")
    most = min(len(data.train), WHITENING_IMAGES) - 1
    if settings.whitening is not None and settings.whitening > most:
        raise BadInputError(f"whitening is {settings.whitening}, but {most + 1:,} images allow for {most:,} at most")


def _whitening_rows(count: int, seed: int) -> Ints:
    """The training images that the whitening is fitted to."""
    return np.sort(np.random.default_rng([seed, WHITENING]).permutation(count)[:WHITENING_IMAGES])


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
