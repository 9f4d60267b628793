"""Commands and options of the previous version: each names its replacement, for one release."""

from collections.abc import Sequence

# Words of the command line that no longer exist, and one sentence that says what to use instead.
REMOVED = {
    "locate --csv": "use --out FILE.csv",
    "locate --tum": "use --out FILE.tum",
    "locate --pairs": "use --out FILE.pairs",
    "locate --export": "use --out FILE, whose suffix chooses the format (.colmap for COLMAP)",
    "locate --rerun": "use --out FILE.rrd",
    "locate --recovered": "`mappable recover` draws the recovered path",
    "follow --rerun": "use --out FILE.rrd",
    "follow --mcap": "use --out FILE.mcap",
    "follow --verify": "nothing replaces it",
    "map merge": "use `mappable map add MAP OTHER`",
    "map export": "use `mappable map show MAP --out FILE.h5`",
    "map build --coverage": "use `mappable map calibrate --coverage`",
    "map build --false-accepts": "use `build_map(..., false_accepts=...)` in Python",
    "map build --approximate": (
        "more than 100,000 landmarks get an index; in Python, `Map.with_index`"
    ),
    "map build --exact": "in Python, maps without `Map.with_index` search exactly",
    "map build --seed": "use `build_map(..., seed=...)` in Python",
    "map build --backend": "an .onnx file as --encoder runs with onnxruntime",
    "map add --condition": "split the table, or use `Map.add` in Python",
    "map add --landmarks": "use --spacing",
    "map add --seed": "use --spacing",
    "embed --format": "OUT with the suffix .h5 is a file for hloc",
    "embed --batch-size": "use `Encoder.embed(..., batch_size=...)` in Python",
    "embed --precision": "use `Encoder.embed(..., precision=...)` in Python",
    "export --calibrate": "give the places with --int8 PLACES",
    "export --images": "use `export_int8(..., count=...)` in Python",
    "places show --picture": "use --out FILE.png",
    "convert --dimensions": (
        "positions keep z if the collection has it; use `convert(..., dimensions=...)` in Python"
    ),
    "convert rosbag --list": "use `mappable convert auto BAG`",
    "convert --verify": "delete OUT/pixels to decode all files again",
    "convert --workers": "use `convert(..., workers=...)` in Python",
    "map reliability": (
        "the report of `mappable evaluate MAP QUERIES OUT` shows the intervals against the truth"
    ),
    "places mend": (
        "`mappable places check` names the option of `convert` instead: --spacing, --drop-outliers,"
        " --like"
    ),
    "recover file": "use `mappable recover FILE OUT`",
    "recover images": "use `mappable recover MAP IMAGES OUT`",
    "recover --assume-steps": (
        "`mappable recover MAP IMAGES OUT` assumes steps; for ranges, use Python"
    ),
    "recover --certificate": (
        "`undetermined` in the output says which images are not determined, and how far"
    ),
    "recover --device": "use --descriptors with a folder of `mappable embed --device`",
    "recover --encoder": "use --descriptors with a folder of `mappable embed`",
    "recover --figure": "OUT/recovery.png is always drawn",
    "recover --graph": "with --odometry, OUT/graph.g2o is always written",
    "recover --mask": "use `read_matrix(..., mask=...)` in Python",
    "recover --odometry-topic": "convert the bag, and give its odometry.parquet",
    "recover --seed": "use `mappable.recover(..., seed=...)` in Python",
    "recover --scale": "give a matrix in square metres",
    "recover --trust-code": "use --descriptors with a folder of `mappable embed --trust-code`",
    "recover --turns": (
        "turns are part of odometry: give them in a table i,j,forward,left,turn with --odometry"
    ),
    "weights": "use `mappable encoders`, which lists weight sets, and fetches them",
    "map estimate": "use `mappable map build --estimate`",
    "map build --storage": 'use `build_map(..., storage="float16")` in Python',
    "train --loss": "use --set loss=NAME",
    "train --iterations": "use --set iterations=N",
    "train --trainable": "use --set trainable=all or trainable=last",
    "train --seed": "use --set seed=N",
    "serve --session-folder": (
        "sessions end with the server; for several servers, see docs/scale.md"
    ),
    "serve --read-timeout": "a proxy in front closes slow connections (docs/serve.md)",
    "serve --tiles": (
        "`mappable locate --out FILE.geojson` writes positions for programs with map tiles"
    ),
    "serve --tiles-credit": "the page shows no map tiles any more",
    "serve --token": "write the token to a file and use --token-file, or set MAPPABLE_TOKEN",
    "serve --max-body": (
        "write `body` to a file for --settings; --show-settings prints all settings"
    ),
    "serve --max-pixels": (
        "write `pixels` to a file for --settings; --show-settings prints all settings"
    ),
    "serve --queue": "write `queue` to a file for --settings; --show-settings prints all settings",
    "serve --connections": (
        "write `connections` to a file for --settings; --show-settings prints all settings"
    ),
    "serve --timeout": (
        "write `timeout` to a file for --settings; --show-settings prints all settings"
    ),
    "serve --sessions": (
        "write `sessions` to a file for --settings; --show-settings prints all settings"
    ),
    "serve --session-timeout": (
        "write `session_timeout` to a file for --settings; --show-settings prints all settings"
    ),
    "serve --study": (
        "open report.html in the folder of the study; --images STUDY/places shows its pictures on"
        " the map"
    ),
    "evaluate --block": "the stretches of the bootstrap are as long as the negative radius",
    "reproduce --away": "use `mappable evaluate --away` with a map of the encoder",
    "reproduce --cluster-images": "use --as-printed PLACES",
    "reproduce --report-only": (
        "the same command trains nothing that is finished; --rows chooses what it reports"
    ),
    "reproduce --lean": "delete OUT/descriptors when the study is finished",
    "reproduce --minutes": "stop the command at any time; the same command continues from there",
    "reproduce --vary": (
        "run it once per value with --set, each into its own OUT, and compare the results"
    ),
    "train --tensorboard": "OUT/metrics.jsonl has the same values, one line per iteration",
    "simulate --no-pixels": "delete OUT/pixels; `train` packs the images that it needs",
    "selfcheck": "`make test` in a source checkout compares the code with slow references",
}


def removed(words: Sequence[str]) -> str | None:
    """The sentence for a removed command or option among `words`, those after `mappable`; None if
    all exist.
    """
    given = [word.partition("=")[0] for word in words]
    for name, sentence in REMOVED.items():
        *command, last = name.split()
        rest = given[len(command) :]
        if given[: len(command)] == command and last in (
            rest if last.startswith("-") else rest[:1]
        ):
            return f"{name}: no longer exists; {sentence}"
    return None
