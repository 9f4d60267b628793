"""The furniture of each kind of room, and what hangs on its walls."""

from collections.abc import Callable, Sequence

from mappable.arrays import Floats
from mappable_worlds.rooms.arranging import Interior, Print
from mappable_worlds.rooms.floorplan import DOOR_WIDTH, Door, Room, Spot, box, gaps
from mappable_worlds.rooms.furniture import two_sided
from mappable_worlds.scene import Material


def _office(inside: Interior) -> None:
    inside.against(2, inside.make.desk(1.8, 2), 0.7)
    inside.against(1, inside.make.shelf(2.2), 0.5)
    inside.against(3, inside.make.cabinet(), 0.7)
    inside.against(3, inside.make.sofa(1.8), 0.3)
    inside.against(2, inside.make.plant(), 0.05)
    inside.against(0, inside.make.coats(), 0.95)
    inside.board(3, 0.8, 1.5, (0.85, 0.85, 0.85))


def _shared_office(inside: Interior) -> None:
    for wall, share in ((2, 0.25), (2, 0.75), (1, 0.6), (3, 0.6)):
        inside.against(wall, inside.make.desk(1.6, 1 + int(share > 0.6)), share)
    inside.against(3, inside.make.shelf(1.6), 0.1)
    inside.against(1, inside.make.cabinet(1.2, 0.45, 2.0), 0.1)
    inside.against(0, inside.make.coats(), 0.05)


def _lab(inside: Interior) -> None:
    for wall, share, length in ((1, 0.5, 4.0), (3, 0.5, 4.0), (2, 0.5, 3.0)):
        inside.against(wall, inside.make.bench(length), share)
    inside.stand(Spot(inside.wide * 0.5, inside.deep * 0.6), two_sided(inside.make.bench(2.2)))
    inside.against(0, inside.make.rack(), 0.05)
    inside.against(0, inside.make.cabinet(1.2, 0.5, 2.0), 0.95)


def _kitchen(inside: Interior) -> None:
    inside.against(1, inside.make.counter(3.6), 0.5)
    for x, y in ((0.3, 0.65), (0.15, 0.3), (0.6, 0.75)):
        inside.stand(Spot(inside.wide * x, inside.deep * y), inside.make.round_table(1.0, 3))
    inside.against(3, inside.make.cabinet(1.4, 0.4, 0.9), 0.5)
    inside.against(2, inside.make.plant(), 0.95)
    inside.board(3, 0.3, 1.2)


def _meeting(inside: Interior) -> None:
    for x, y in ((0.3, 0.62), (0.08, 0.6), (0.5, 0.6), (0.3, 0.72)):
        if inside.stand(Spot(inside.wide * x, inside.deep * y), inside.make.table(3.2, 1.3, 4)):
            break
    inside.board(1, 0.5, 2.4, (0.85, 0.85, 0.85))
    screen = box(
        0, 0, 1.7, 0.06, 1.0, 1.95, Material.SCREEN, (0.03, 0.03, 0.03), inside.make.seed()
    )
    inside.hang(3, inside.deep * 0.5, screen)
    inside.against(3, inside.make.cabinet(1.8, 0.45, 0.8), 0.5)
    inside.against(2, inside.make.plant(), 0.03)
    inside.against(2, inside.make.plant(1.2), 0.97)


def _library(inside: Interior) -> None:
    for wall in (1, 3):
        for share in (0.15, 0.5, 0.85):
            inside.against(wall, inside.make.shelf(2.0), share)
    for x in (0.12, 0.4, 0.68):
        inside.stand(
            Spot(inside.wide * x, inside.deep * 0.58), two_sided(inside.make.shelf(1.8, 0.3, 1.8))
        )
    inside.against(2, inside.make.desk(1.6, 0), 0.5)
    inside.against(0, inside.make.sofa(1.0), 0.95)


def _lounge(inside: Interior) -> None:
    inside.against(1, inside.make.sofa(2.2), 0.6)
    inside.against(2, inside.make.sofa(2.2), 0.3)
    inside.against(3, inside.make.sofa(1.0), 0.4)
    inside.against(3, inside.make.shelf(1.2, 0.35, 1.6), 0.8)
    for x, y in ((0.6, 0.65), (0.25, 0.6)):
        inside.stand(Spot(inside.wide * x, inside.deep * y), inside.make.round_table(0.9, 0, 0.45))
    for wall, share in ((2, 0.95), (1, 0.1), (3, 0.05)):
        inside.against(wall, inside.make.plant(), share)


def _printers(inside: Interior) -> None:
    inside.against(2, inside.make.printer(), 0.3)
    inside.against(2, inside.make.printer(), 0.6)
    inside.against(1, inside.make.shelf(1.8, 0.4, 2.0), 0.6)
    inside.against(3, inside.make.table(1.8, 0.7, 0), 0.6)
    inside.against(3, inside.make.cabinet(0.9, 0.45, 1.9), 0.05)
    inside.board(3, 0.6, 1.4)


def _workshop(inside: Interior) -> None:
    inside.against(1, inside.make.bench(3.0), 0.6)
    inside.against(2, inside.make.shelf(2.0, 0.5, 0.85), 0.4)
    inside.against(3, inside.make.shelf(2.4, 0.5, 2.2), 0.5)
    inside.stand(Spot(inside.wide * 0.4, inside.deep * 0.6), inside.make.table(2.4, 1.2, 0))
    inside.against(0, inside.make.cabinet(1.0, 0.5, 2.0), 0.03)
    inside.against(0, inside.make.rack(), 0.97)


def _classroom(inside: Interior) -> None:
    for x in (0.08, 0.4, 0.72):
        for y in (0.25, 0.5, 0.75):
            inside.stand(Spot(inside.wide * x, inside.deep * y), inside.make.table(1.4, 0.6, 1))
    inside.board(1, 0.5, 2.8, (0.03, 0.12, 0.06))
    inside.against(3, inside.make.cabinet(1.8, 0.45, 1.0), 0.5)


def _archive(inside: Interior) -> None:
    for wall in (1, 2, 3):
        for share in (0.2, 0.55, 0.9):
            inside.against(wall, inside.make.cabinet(1.4, 0.5, 2.0 if wall != 2 else 0.85), share)
    inside.stand(
        Spot(inside.wide * 0.45, inside.deep * 0.62), two_sided(inside.make.cabinet(1.6, 0.45, 1.6))
    )
    inside.against(0, inside.make.desk(1.4), 0.95)


def _hall(inside: Interior) -> None:
    for wall in range(4):
        inside.against(wall, inside.make.sofa(2.0), 0.3)
        inside.against(wall, inside.make.plant(1.7), 0.15)
        inside.against(wall, inside.make.cabinet(2.0, 0.6, 1.05), 0.75)
    for x, y in ((0.2, 0.25), (0.7, 0.7), (0.75, 0.2)):
        inside.stand(Spot(inside.wide * x, inside.deep * y), inside.make.round_table(1.1, 3))


def _corridor(inside: Interior) -> None:
    for wall in (1, 3):
        long = inside.walls[wall][1] > inside.walls[0][1]
        for share in (0.08, 0.3, 0.55, 0.8) if long else ():
            choice = inside.generator.integers(4)
            if choice == 0:
                inside.against(wall, inside.make.plant(), share)
            elif choice == 1:
                inside.against(wall, inside.make.cabinet(0.9, 0.35, 1.1), share)
            elif choice == 2:
                inside.against(wall, inside.make.extinguisher(), share)
            inside.board(wall, share + 0.1, 1.2)


KINDS: dict[str, Callable[[Interior], None]] = {
    "office": _office,
    "shared office": _shared_office,
    "lab": _lab,
    "kitchen": _kitchen,
    "meeting room": _meeting,
    "library": _library,
    "lounge": _lounge,
    "printer room": _printers,
    "workshop": _workshop,
    "classroom": _classroom,
    "archive": _archive,
    "hall": _hall,
    "corridor": _corridor,
}


def furnish(
    room: Room,
    rooms: Sequence[Room],
    doors: Sequence[Door],
    ways: Sequence[Floats],
    prints: Sequence[Print],
) -> Interior:
    """Furnish a room, but keep the `ways` (polylines in the world) and its doors free; the ramp's
    hall stays empty.
    """
    inside = Interior(room, rooms, doors, ways)
    if room.kind == "ramp":
        return inside
    KINDS[room.kind](inside)
    if room.kind != "corridor":
        inside.fill()
    _door_plates(inside, doors)
    inside.pictures(prints, 1.6 if room.kind == "corridor" else 1.9)
    inside.clutter(3)
    return inside


def _door_plates(inside: Interior, doors: Sequence[Door]) -> None:
    """Hang a plate next to each door of a corridor; the door decides its text."""
    if inside.room.kind != "corridor":
        return
    for wall, (spot, length) in enumerate(inside.walls):
        for start, end, door in gaps(inside.room, spot, length, doors):
            if door.width == DOOR_WIDTH and not door.arch:
                plate = box(0, 0, 0.24, 0.02, 1.4, 1.62, Material.SIGN, (0.8, 0.8, 0.8), door.plate)
                _ = inside.hang(wall, end + 0.26, plate) or inside.hang(wall, start - 0.26, plate)
