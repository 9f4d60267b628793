"""Sixty deliberate errors, each a change of one line of the source. run.py applies them one by one."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """A deliberate error: the line `text` of a file in `room` becomes `wrong`; `tests` should
    notice.
    """

    name: str
    room: str
    text: str
    wrong: str
    tests: str = ""  # folders or files below tests; by default the room's
    now: str = ""  # a line of the later source that does the same, if the line itself changed
    wrong_now: str = ""


MUTATIONS = (
    # losses, tuples, training
    Mutation(
        "huber without its half",
        "learning",
        "residuals.square() / 2, delta",
        "residuals.square(), delta",
    ),
    Mutation(
        "sum of hinges becomes a mean",
        "learning",
        "distances.negative, margins.first).sum(dim=1)",
        "distances.negative, margins.first).mean(dim=1)",
    ),
    Mutation(
        "sign of the margin",
        "learning",
        "torch.relu(margin + near[:, None] - far)",
        "torch.relu(near[:, None] - far - margin)",
    ),
    Mutation(
        "residual with a radius not squared",
        "learning",
        "squared_distances / positive_radius**2",
        "squared_distances / positive_radius",
    ),
    Mutation(
        "worst positive in place of the best",
        "learning",
        "self.positive.min(dim=1).values",
        "self.positive.max(dim=1).values",
    ),
    Mutation(
        "mining takes the easiest",
        "learning",
        "distances.topk(min(count, len(self.rows)), largest=False)",
        "distances.topk(min(count, len(self.rows)), largest=True)",
    ),
    Mutation(
        "other negative near the anchor's negatives",
        "learning",
        "far &= self._negatives(self._squared_distances(negative))",
        "far &= ~far | True",
    ),
    Mutation(
        "one axis of positions is lost", "learning", "for axis in rest:", "for axis in rest[1:]:"
    ),
    # features
    Mutation(
        "NetVLAD without its centers",
        "features",
        "residuals = weights @ local - weights.sum(-1, keepdim=True) * self.centres",
        "residuals = weights @ local",
    ),
    Mutation(
        "a sum without its root",
        "features",
        "local.pow(self.exponent).mean(-1).pow(1 / self.exponent)",
        "local.pow(self.exponent).mean(-1)",
        now="own = torch.eye(sketch, device=signs.device) * (inputs / max(1, sketch)) ** 0.5",
        wrong_now="own = torch.eye(sketch, device=signs.device) * (inputs / max(1, sketch))",
    ),
    Mutation(
        "k-means without the lengths of centers",
        "features",
        "(points @ centers.T - centers.square().sum(-1) / 2).max(-1)",
        "(points @ centers.T).max(-1)",
    ),
    Mutation(
        "a download without its hash",
        "features",
        "if not found.startswith(sha256.lower()):",
        "if False:",
    ),
    Mutation(
        "descriptors are not scaled",
        "features",
        "descriptors[other] /= lengths[other, None].astype(np.float32)",
        "descriptors[other] *= 1",
    ),
    # places
    Mutation(
        "compass turns the other way",
        "places",
        "return wrap(np.pi / 2 - heading)",
        "return wrap(np.pi / 2 + heading)",
    ),
    Mutation(
        "yaw interpolated over the long arc",
        "places",
        "return wrap(start + fraction * wrap(end - start))",
        "return wrap(start + fraction * (end - start))",
    ),
    Mutation(
        "southern zones become northern",
        "places",
        "(32700 if south else 32600)",
        "(32600 if south else 32600)",
    ),
    Mutation(
        "a place is its own neighbor", "places", "keep = query != row", "keep = query == query"
    ),
    Mutation(
        "queries become references",
        "places",
        "return np.setdiff1d(np.flatnonzero(asked), references(places))",
        "return np.flatnonzero(asked)",
    ),
    Mutation(
        "calibration images of the map",
        "places",
        'np.flatnonzero((places.split == "calibration") & near), known)',
        'np.flatnonzero((places.split == "calibration") & near), known[:0])',
    ),
    Mutation(
        "origins are subtracted the wrong way",
        "places",
        "np.subtract(frame.origin, other.origin) @ np.array(frame.axes)",
        "np.subtract(other.origin, frame.origin) @ np.array(frame.axes)",
        now="other.from_original(frame.to_original(xyz[rows]))",
        wrong_now="frame.from_original(other.to_original(xyz[rows]))",
    ),
    Mutation("farthest point chosen again", "places", "nearest[last] = -1.0", "pass"),
    Mutation(
        "red and blue are exchanged",
        "places",
        'CHANNEL = {"R": 0, "G": 1, "B": 2}',
        'CHANNEL = {"R": 2, "G": 1, "B": 0}',
        now='for number, name in enumerate("RGB"):',
        wrong_now='for number, name in enumerate("BGR"):',
    ),
    # root
    Mutation(
        "a write that is not atomic",
        "",
        'temporary = file.with_name(f".{file.name}.{uuid4().hex}")',
        "temporary = file",
        "test_files.py learning/test_checkpoint.py test_interruption.py",
    ),
    Mutation(
        "an unlocked folder",
        "",
        'lock = take(folder / ".lock")',
        "from contextlib import nullcontext; lock = nullcontext()",
        "test_locks.py learning places readers/test_conversion.py test_interruption.py",
        now="lock = take(lock_file)",
        wrong_now="from contextlib import nullcontext; lock = nullcontext()",
    ),
    Mutation(
        "a seal that always fits",
        "",
        "return found.hexdigest().encode() == digits",
        "return True",
        "test_bit_rot.py test_containers.py test_formats.py maps",
    ),
    Mutation(
        "streams of one seed are equal",
        "",
        "np.random.default_rng([seed, purpose, number])",
        "np.random.default_rng([seed, number])",
        "test_randomness.py ../src/mappable/randomness.py",
    ),
    # readers
    Mutation(
        "no interpolation between poses",
        "readers",
        "xyz = self.xyz[before] + share[:, None] * (self.xyz[after] - self.xyz[before])",
        "xyz = self.xyz[before]",
    ),
    Mutation(
        "images outside the track are kept",
        "readers",
        "return np.flatnonzero(self.inside & ~in_gap)",
        "return np.flatnonzero(~in_gap)",
    ),
    Mutation(
        "images in a gap are kept",
        "readers",
        "return np.flatnonzero(self.inside & ~in_gap)",
        "return np.flatnonzero(self.inside)",
    ),
    Mutation(
        "down becomes up",
        "readers",
        '("east", "north", "down")) * (1, 1, -1)',
        '("east", "north", "down")) * (1, 1, 1)',
    ),
    Mutation(
        "microseconds read as nanoseconds",
        "readers/formats/nclt.py",
        "dtype=np.int64) * 1000",
        "dtype=np.int64)",
        "readers",
        now='table.times("t", "us")',
        wrong_now='table.times("t", "ns")',
    ),
    Mutation(
        "a matrix that is no rotation",
        "readers",
        "wrong = np.flatnonzero(~are_rotations(matrices[:, :3, :3]))",
        "wrong = np.flatnonzero(are_rotations(matrices[:, :3, :3]) & False)",
        now="good = near & are_rotations(np.where(near[:, None, None], matrices, 0)[:, :3, :3])",
        wrong_now="good = near",
    ),
    Mutation(
        "optical axis is the x axis",
        "readers",
        "axis = matrices[:, :, 2] / np.linalg.norm(matrices[:, :, 2], axis=1, keepdims=True)",
        "axis = matrices[:, :, 0] / np.linalg.norm(matrices[:, :, 0], axis=1, keepdims=True)",
    ),
    # maps
    Mutation(
        "exact search without lengths of landmarks",
        "maps",
        "squared_lengths(in_single(self._vectors[some]))",
        "np.ones(len(self._vectors[some]), dtype=np.float32)",
        now="by_products = lengths + self._squared_lengths - 2 * self.products(queries)",
        wrong_now="by_products = lengths + 1 - 2 * self.products(queries)",
    ),
    Mutation(
        "ties by the highest row",
        "maps",
        "order = np.lexsort((row, squared, query))",
        "order = np.lexsort((-row, squared, query))",
    ),
    Mutation(
        "landmarks closer than the spacing",
        "maps",
        "if last is None or math.dist(position, last) >= spacing:",
        "if last is None or math.dist(position, last) >= spacing / 2:",
    ),
    Mutation(
        "conformal rank without its plus one",
        "maps",
        "rank = max(1, math.ceil((len(scores) + 1) * coverage - 1e-9))",
        "rank = max(1, math.ceil(len(scores) * coverage - 1e-9) - 1)",
    ),
    Mutation(
        "landmarks in the order of the table",
        "maps",
        'visits.append(rows[np.argsort(places.time[rows], kind="stable")] if known else rows)',
        "visits.append(rows)",
    ),
    # localization
    Mutation(
        "the shift of a visit stays",
        "localization",
        "center: Floats32 = self.mean + np.float32(trust) * shift",
        "center: Floats32 = self.mean + np.float32(0.0) * shift",
        now="center: Floats32 = self.mean + np.float32(free) * shift",
        wrong_now="center: Floats32 = self.mean + np.float32(0.0) * shift",
    ),
    Mutation(
        "likeness is not standardized",
        "localization",
        "deviations: Floats = (mixed - usual) / np.maximum(deviation, 1e-6)",
        "deviations: Floats = (mixed - usual) / 1.0",
    ),
    Mutation(
        "nowhere is off the map",
        "localization",
        "away = 1 / (1 + np.exp(np.clip(presence, -MOST_EXPONENT, MOST_EXPONENT)))",
        "away = 0 / (1 + np.exp(np.clip(presence, -MOST_EXPONENT, MOST_EXPONENT)))",
    ),
    Mutation(
        "every image counts in full",
        "localization",
        "return Shift(center, 1 / time)",
        "return Shift(center, 1.0)",
        now="return center, 1 / correlation_time(rest, self.numbers), left",
        wrong_now="return center, 1.0, left",
    ),
    Mutation(
        "confident answers may be wrong",
        "localization",
        "if wrong[confident].sum() <= WRONG * max(confident.sum(), 1):",
        "if wrong[confident].sum() >= 0:",
    ),
    Mutation(
        "blends lean the wrong way",
        "localization",
        "(1 - states.blend) * cosine[:, states.first] + states.blend * cosine[:, states.second]",
        "states.blend * cosine[:, states.first] + (1 - states.blend) * cosine[:, states.second]",
        now="(1 - blend) * values[self.first] + blend * values[self.second]",
        wrong_now="blend * values[self.first] + (1 - blend) * values[self.second]",
    ),
    # recovery
    Mutation(
        "Gram matrix without its half",
        "recovery",
        "gram = -0.5 * (gram - gram.mean(1, keepdims=True))",
        "gram = -(gram - gram.mean(1, keepdims=True))",
    ),
    Mutation(
        "SMACOF with weights 1 / sigma",
        "recovery",
        "weights = ranges.sigma**-2",
        "weights = ranges.sigma**-1",
    ),
    Mutation(
        "alignment without its scale",
        "recovery",
        "factor = float(singular_values @ signs / spread) if scale and spread > 0 else 1.0",
        "factor = 1.0",
    ),
    Mutation(
        "alignment mirrors when it must not",
        "recovery",
        "signs[-1] = np.sign(np.linalg.det(left @ right))",
        "signs[-1] = 1.0",
    ),
    Mutation("range between a pair counted twice", "recovery", "if len(twice):", "if False:"),
    Mutation(
        "metres from squared distances without a root",
        "recovery",
        "np.sqrt(scale * values), deviations)",
        "scale * values, deviations)",
    ),
    Mutation(
        "known positions are ignored",
        "recovery",
        "self.graph.add(prior(point, position, self.gtsam.noiseModel.Isotropic.Sigma(self.k,"
        " sigma)))",
        "pass",
        now="prior(point, position, self.gtsam.noiseModel.Isotropic.Sigma(self.k, sigma))",
        wrong_now="prior(point, position, self.gtsam.noiseModel.Isotropic.Sigma(self.k, 1e9))",
    ),
    # evaluation
    Mutation(
        "recall counts queries without a positive",
        "evaluation",
        "counted = positives[has_positive]",
        "counted = positives",
    ),
    Mutation(
        "within the radius excludes the radius",
        "evaluation",
        "return float(100.0 * np.mean(np.asarray(errors, dtype=np.float64) <= radius))",
        "return float(100.0 * np.mean(np.asarray(errors, dtype=np.float64) < radius))",
    ),
    Mutation(
        "bootstrap of queries in place of blocks",
        "evaluation",
        "names, number = np.unique(blocks, return_inverse=True)",
        "names, number = np.unique(np.arange(len(blocks)), return_inverse=True)",
    ),
    Mutation(
        "deviation divided by n",
        "evaluation",
        "float(np.std(numbers, ddof=1))",
        "float(np.std(numbers))",
    ),
    # exchange
    Mutation(
        "ellipse of one dimension",
        "exchange",
        "scale = np.sqrt(-2 * np.log1p(-self.coverage))",
        "scale = np.sqrt(-np.log1p(-self.coverage))",
    ),
    Mutation(
        "latitude before longitude",
        "exchange",
        "np.column_stack([longitude, latitude]).round(9)",
        "np.column_stack([latitude, longitude]).round(9)",
    ),
    # service
    Mutation(
        "every host is answered",
        "service",
        "if not self.hosts.allow(",
        "if False and not self.hosts.allow(",
    ),
    Mutation("a body of any length", "service", "if length > self.settings.body:", "if False:"),
    Mutation("memory is never returned", "service", "self.taken -= reserved", "self.taken -= 0"),
    Mutation(
        "sessions never expire",
        "service",
        "if session.used >= oldest}",
        "if True or session.used >= oldest}",
        now="if session.used >= oldest\n",
        wrong_now="if True or session.used >= oldest\n",
    ),
)
