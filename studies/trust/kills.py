"""Kill every command that writes, at every change of a file and at random moments; run two of each at once.

After a kill, each part of the result must be as before or complete, and the same command must end
well.
"""

import itertools
import random
import re
import time
from collections.abc import Iterable
from pathlib import Path

from trust.commands import ABSENT, COMMANDS, Command
from trust.counters import Counters
from trust.processes import Ended, ask, run, start

KINDS = ("before a change", "just after a change", "at random")
BEFORE = "changes with a kill before them"
LEFT = re.compile(r"\.?.*[0-9a-f]{32}.*")  # names of temporary files
Parts = dict[str, str]
# By whether the first and the second process succeeded.
Outcomes = dict[tuple[bool, bool], list[Parts]]


class Killer:
    """Kills one command again and again, and judges what is left."""

    def __init__(self, command: Command, base: Path, work: Path) -> None:
        self.command, self.base, self.work = command, base, work
        self.output = work.with_suffix(".txt")
        command.prepare(base, work)
        self.before = self.look()
        done = self.run()
        if done.status:
            raise RuntimeError(f"{command.name}: exit {done.status}\n{done.output}")
        self.after, self.changes, self.seconds = self.look(), done.changes, done.seconds

    def look(self) -> Parts:
        parts: Parts = ask(lambda: (self.command.setup(self.base), self.command.look(self.work))[1])
        return parts

    def run(self) -> Ended:
        words = self.command.words(self.base)
        return run(words, self.work, self.output, before=lambda: self.command.setup(self.base))

    def kill(self, kind: str, number: int, draw: random.Random) -> Ended:
        """Run the command and kill it; `number` is the change of a file, counted from 1."""
        words = self.command.words(self.base)
        exact = number if kind == KINDS[0] else None
        running = start(
            words,
            self.work,
            self.output,
            before=lambda: self.command.setup(self.base),
            kill_before=exact,
        )
        if kind == KINDS[1] and running.wait_for_change(number):
            time.sleep(draw.uniform(0, 0.004))
            running.kill()
        elif kind == KINDS[2]:
            time.sleep(draw.uniform(0.02, self.seconds))
            running.kill()
        return running.wait()

    def judge(self, parts: Parts) -> str:
        """What is wrong with the parts after a kill; "" if nothing is."""
        for name in {*parts, *self.before}:
            found, good = parts.get(name, ABSENT), self.before.get(name, ABSENT)
            if found not in (good, self.after.get(name, ABSENT)):
                return f"{name} is {found}, before {good}, complete {self.after.get(name, ABSENT)}"
        return ""

    def try_once(self, kind: str, number: int, draw: random.Random) -> tuple[bool, str, int]:
        """Kill once: whether the kill hit, what is wrong, and how many temporary files stay behind."""
        self.command.prepare(self.base, self.work)
        ended = self.kill(kind, number, draw)
        if not ended.killed:
            return (
                False,
                "" if ended.status == 0 else f"exit {ended.status}: {ended.output[-300:]}",
                0,
            )
        where = f"killed {kind} ({number} of {self.changes}, {ended.seconds:.3f} s): "
        try:
            parts = self.look()
            wrong = self.judge(parts)
            if wrong:
                return True, where + wrong, 0
            again = self.run()
            refused = not self.command.settles and parts == self.after and again.sentence
            if again.status and not refused:
                return True, f"{where}then exit {again.status}: {again.output[-300:]}", 0
            parts = self.look()
        except RuntimeError as error:
            return True, where + str(error).strip().splitlines()[-1], 0
        wrong = "" if parts == self.after else f"{where}then {parts}, expected {self.after}"
        return True, wrong, sum(1 for file in self.work.rglob("*") if LEFT.fullmatch(file.name))


def run_kills(
    base: Path,
    work: Path,
    counters: Counters,
    hits: int,
    names: Iterable[str] = COMMANDS,
    until: float = float("inf"),
    *,
    each: bool = True,
) -> None:
    """Kill each command until `hits` kills hit it, and before each change; counters of earlier runs
    count.

    With `each` False, some changes may be left out.
    """
    killers: dict[str, Killer] = {}

    def kill(name: str, kind: str) -> None:
        if name not in killers:
            killers[name] = Killer(COMMANDS[name], base, work / "kill")
            counters.of(name)["changes"] = killers[name].changes
        _kill_once(killers[name], name, counters, kind)

    names = list(names)
    # In turns: a stopped run has tried all commands.
    for goal, name in itertools.product(range(5, hits + 5, 5), names):
        while counters.get(name, "hit") < min(goal, hits) and time.monotonic() < until:
            kill(name, KINDS[counters.get(name, "tried") % 3])
    for name in names if each else ():
        while (
            counters.get(name, BEFORE) < counters.get(name, "changes") and time.monotonic() < until
        ):
            kill(name, KINDS[0])


def _kill_once(killer: Killer, name: str, counters: Counters, kind: str) -> None:
    draw = random.Random(f"{name} {counters.get(name, 'tried')}")
    number = draw.randint(1, killer.changes)
    if kind == KINDS[0]:
        number = counters.get(name, BEFORE) % killer.changes + 1
        counters.add(name, BEFORE)
    hit, wrong, left = killer.try_once(kind, number, draw)
    counters.add(name, "tried")
    counters.add(name, "hit", hit)
    counters.add(name, "left behind", left)
    if hit:
        counters.add(name, kind)
    if wrong:
        counters.fail(name, wrong)
    counters.save()


def run_pairs(
    base: Path,
    work: Path,
    counters: Counters,
    pairs: int,
    names: Iterable[str] = COMMANDS,
    until: float = float("inf"),
) -> None:
    """Run two of each command at once: both succeed and both count, or one is refused with a
    sentence.
    """
    for name in names:
        command = COMMANDS[name]
        if counters.get(name, "tried") >= pairs:
            continue
        outcomes = _outcomes(command, base, work / "pair")
        while counters.get(name, "tried") < pairs and time.monotonic() < until:
            _pair_once(command, base, work, counters, outcomes)


def _pair_once(
    command: Command, base: Path, work: Path, counters: Counters, outcomes: Outcomes
) -> None:
    name, folder = command.name, work / "pair"
    draw = random.Random(f"{name} {counters.get(name, 'tried')}")
    command.prepare(base, folder)
    both = []
    for twin in (False, True):
        words, output = command.words(base, twin=twin), work / f"pair-{twin}.txt"
        both.append(start(words, folder, output, before=lambda: command.setup(base)))
        time.sleep(draw.choice([0.0, 0.05, draw.uniform(0, 0.4)]))
    first, second = (running.wait() for running in both)
    counters.add(name, "tried")
    counters.add(name, "both done" if first.status == second.status == 0 else "one refused")
    exits = f"exits {first.status} and {second.status}"
    wrong = [
        f"{exits}: {one.output[-300:]}"
        for one in (first, second)
        if one.status and not one.sentence
    ]
    expected = outcomes.get((first.status == 0, second.status == 0))
    try:
        parts = ask(lambda: (command.setup(base), command.look(folder))[1])
        if expected is None:
            wrong.append(exits)
        elif parts not in expected:
            wrong.append(f"{exits}: {parts}, expected one of {expected}")
    except RuntimeError as error:
        wrong.append(str(error).strip().splitlines()[-1])
    if wrong:
        counters.fail(name, wrong[0])
    counters.save()


def _outcomes(command: Command, base: Path, work: Path) -> Outcomes:
    """What the result may be, by which of the two processes succeeded."""

    def result(*twins: bool) -> Parts | None:
        command.prepare(base, work)
        for twin in twins:
            words = command.words(base, twin=twin)
            if run(
                words, work, work.with_suffix(".txt"), before=lambda: command.setup(base)
            ).status:
                return None
        parts: Parts = ask(lambda: (command.setup(base), command.look(work))[1])
        return parts

    one = result(False)
    if not command.twin:
        return {
            key: [one] for key in ((True, True), (True, False), (False, True)) if one is not None
        }
    found = {
        (True, False): [result(False)],
        (False, True): [result(True)],
        (True, True): [result(False, True), result(True, False)],
    }
    return {
        key: [parts for parts in several if parts is not None] for key, several in found.items()
    }
